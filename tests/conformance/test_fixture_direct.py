"""The fixture passes the suite with nothing in between; otherwise it could not be a reference."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conformance.configurations import LEGACY, MODERN, STABLE, Reference
from tests.conformance.coverage import lost, passed
from tests.conformance.processes import running_fixture
from tests.conformance.suites import run_directly, run_server_suite

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("suite")]


@pytest.mark.parametrize(
    ("reference", "checks"),
    [
        pytest.param(STABLE, 44, id="stable"),
        pytest.param(LEGACY, 84, id="2025-11-25"),
        pytest.param(MODERN, 136, id="2026-07-28"),
    ],
)
def test_the_fixture_passes_every_check_of_the_suite(
    tmp_path: Path, reference: Reference, checks: int
) -> None:
    run = run_directly(reference, tmp_path / "direct")
    failed = {
        key: check.complaints for key, check in run.items() if any("FAILURE" in c for c in check.complaints)
    }
    assert failed == {}
    assert len(passed(run)) == checks


def test_a_server_that_knows_one_era_only_loses_most_checks_of_the_other(tmp_path: Path) -> None:
    reference = run_directly(MODERN, tmp_path / "direct")
    with running_fixture("http", "legacy", tmp_path / "fixture.log") as url:
        lossy = run_server_suite(MODERN, url, tmp_path)
    missing = lost(reference, lossy)
    assert len(missing) > 100
    assert missing["caching:sep-2549-tools-list-caching-hints"].startswith("FAILURE")
