"""The gate itself: what counts as lost, and what an excuse is worth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.conformance.configurations import CONFIGURATIONS
from tests.conformance.coverage import Run, lost, passed, read_run
from tests.conformance.report import Impossible, as_text, compare, read_impossible, unknown_names

_CONFIGURATION = CONFIGURATIONS[0]


def _run(folder: Path, *cases: dict[str, Any]) -> Run:
    results = folder / "server-ping-2026-01-02T03-04-05-678Z"
    results.mkdir(parents=True)
    (results / "checks.json").write_text(json.dumps(list(cases)))
    return read_run(folder, prefix="server-")


def _case(status: str, name: str = "Ping", check: str = "ping") -> dict[str, Any]:
    return {"id": check, "name": name, "status": status, "errorMessage": "because"}


def test_a_check_that_passes_again_is_kept(tmp_path: Path) -> None:
    direct = _run(tmp_path / "direct", _case("SUCCESS"))
    assert passed(direct) == {"ping:ping"}
    assert lost(direct, _run(tmp_path / "through", _case("SUCCESS"))) == {}


def test_failing_warned_and_skipped_checks_are_lost_with_the_reason(tmp_path: Path) -> None:
    direct = _run(tmp_path / "direct", _case("SUCCESS"))
    for status in ("FAILURE", "WARNING", "SKIPPED"):
        assert lost(direct, _run(tmp_path / status, _case(status))) == {
            "ping:ping": f"{status} Ping: because"
        }


def test_a_check_that_vanished_or_became_a_remark_is_lost(tmp_path: Path) -> None:
    direct = _run(tmp_path / "direct", _case("SUCCESS"))
    assert lost(direct, {}) == {"ping:ping": "vanished: Ping"}
    assert lost(direct, _run(tmp_path / "remark", _case("INFO"))) == {"ping:ping": "vanished: Ping"}


def test_one_missing_case_of_a_check_loses_the_check(tmp_path: Path) -> None:
    direct = _run(tmp_path / "direct", _case("SUCCESS", "First"), _case("SUCCESS", "Second"))
    through = _run(tmp_path / "through", _case("SUCCESS", "First"), _case("SUCCESS", "First"))
    assert list(lost(direct, through)) == ["ping:ping"]


def test_what_fails_directly_is_not_required(tmp_path: Path) -> None:
    direct = _run(tmp_path / "direct", _case("WARNING"))
    assert passed(direct) == set()
    assert lost(direct, {}) == {}


def test_an_excuse_covers_a_lost_check_in_its_configuration_only(tmp_path: Path) -> None:
    direct = _run(tmp_path / "direct", _case("SUCCESS"))
    excuse = Impossible((_CONFIGURATION.name,), ("ping:ping",), "there is no ping")
    assert compare(_CONFIGURATION, direct, {}, [excuse]).is_good
    elsewhere = compare(CONFIGURATIONS[1], direct, {}, [excuse])
    assert not elsewhere.is_good
    assert "lost ping:ping" in as_text([elsewhere])


def test_an_excuse_for_a_check_that_passes_fails_the_run(tmp_path: Path) -> None:
    direct = _run(tmp_path / "direct", _case("SUCCESS"))
    excuse = Impossible((_CONFIGURATION.name,), ("ping:ping",), "there is no ping")
    outcome = compare(_CONFIGURATION, direct, direct, [excuse])
    assert not outcome.is_good
    assert "stale ping:ping" in as_text([outcome])


def test_every_excuse_names_a_configuration_and_a_reason() -> None:
    excuses = read_impossible()
    assert unknown_names(excuses, {each.name for each in CONFIGURATIONS}) == set()
    assert all(excuse.reason and excuse.checks for excuse in excuses)


def test_every_configuration_has_its_own_name() -> None:
    assert len({each.name for each in CONFIGURATIONS}) == len(CONFIGURATIONS)
