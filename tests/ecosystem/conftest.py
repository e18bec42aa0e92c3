"""A home of its own for every test."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.command import Command


@pytest.fixture
def mooring(tmp_path: Path) -> Command:
    """`mooring` with two servers in its configuration, and no gateway running."""
    command = Command(tmp_path / "home")
    (command.home / "mooring.yaml").write_text(
        "mooring: 1\nservers:\n"
        "  - id: notes\n    workload: {run: python notes.py}\n"
        "  - id: clock\n    workload: {run: python clock.py}\n"
    )
    return command
