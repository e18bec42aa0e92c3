"""Makes the runner importable however pytest was started, and the suite available, or says why it is not."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


@pytest.fixture(scope="session")
def suite() -> None:
    """The official suite, installed. Where that cannot be done it is a skip, but never so in CI."""
    from tests.conformance.setup import SetupFailed, ensure

    try:
        ensure()
    except SetupFailed as failure:
        if os.environ.get("CI") == "true":
            pytest.fail(str(failure))
        pytest.skip(str(failure))
