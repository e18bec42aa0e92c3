"""A server made with `mooring.authoring` passes the official suite, with nothing in between."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conformance.configurations import LEGACY, MODERN, STABLE, AuthoredRun, Reference
from tests.conformance.coverage import passed
from tests.conformance.suites import run_configuration

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("suite")]


@pytest.mark.parametrize(
    ("reference", "checks"),
    [
        pytest.param(STABLE, 44, id="stable"),
        pytest.param(LEGACY, 84, id="2025-11-25"),
        pytest.param(MODERN, 136, id="2026-07-28"),
    ],
)
def test_an_authored_server_passes_every_check(tmp_path: Path, reference: Reference, checks: int) -> None:
    run = run_configuration(AuthoredRun(reference), tmp_path / "authored")
    failed = {
        key: check.complaints for key, check in run.items() if any("FAILURE" in c for c in check.complaints)
    }
    assert failed == {}
    assert len(passed(run)) >= checks
