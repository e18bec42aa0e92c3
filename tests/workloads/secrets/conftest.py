"""A home without secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.command import Command


@pytest.fixture
def mooring(tmp_path: Path) -> Command:
    return Command(tmp_path / "home")
