"""What the tests of authored servers share."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))


@pytest.fixture(scope="session")
def suite() -> None:
    """The official suite, installed; see the conformance tests."""
    from tests.conformance.setup import SetupFailed, ensure

    try:
        ensure()
    except SetupFailed as failure:
        pytest.skip(str(failure))
