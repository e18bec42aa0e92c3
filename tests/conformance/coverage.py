"""Which checks passed, and which of them did not come through.

A check is one requirement in one scenario, named `scenario:id`. The suite may emit an id several times,
once per case; each case that passed directly has to pass again. A skipped or missing case is a lost one:
the suite itself would call it green.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

_RESULT_FOLDER = re.compile(r"(?P<scenario>.+)-\d{4}-\d\d-\d\dT[\d-]+Z")
_PASSED = "SUCCESS"
_REMARK = "INFO"


@dataclass(slots=True)
class Check:
    """Everything one run said about one requirement."""

    passed: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)


Run = dict[str, Check]


def read_run(folder: Path, prefix: str = "") -> Run:
    """All results below a folder that the suite wrote; `prefix` is what it puts before a scenario's name."""
    run: Run = {}
    for file in sorted(folder.glob("**/checks.json")):
        name = file.parent.relative_to(folder).as_posix()  # `auth/...` is a folder of folders
        match = _RESULT_FOLDER.fullmatch(name)
        if match is None:
            raise ValueError(
                f"cannot tell the scenario of `{file.parent.name}`: has the suite changed its names?"
            )
        scenario = match["scenario"].removeprefix(prefix)
        for case in json.loads(file.read_text()):
            _add(run.setdefault(f"{scenario}:{case['id']}", Check()), case)
    return run


def _add(check: Check, case: dict[str, str]) -> None:
    if case["status"] == _PASSED:
        check.passed[case["name"]] += 1
    elif case["status"] != _REMARK:
        message = case.get("errorMessage") or case.get("description", "")
        check.complaints.append(f"{case['status']} {case['name']}: {message}")


def passed(run: Run) -> set[str]:
    return {key for key, check in run.items() if check.passed}


def lost(reference: Run, through: Run) -> dict[str, str]:
    """The checks of the reference that did not come through, each with what was said about it."""
    return {
        key: _explain(check, through.get(key, Check()))
        for key, check in sorted(reference.items())
        if check.passed - through.get(key, Check()).passed
    }


def lost_at_all(reference: Run, through: Run) -> dict[str, str]:
    """The same where the suite counts messages (`valid-bearer-token` for every request): how many it takes is
    a client's own affair, but each requirement has to be met, and never missed."""
    return {
        key: _explain(check, through.get(key, Check()))
        for key, check in sorted(reference.items())
        if check.passed
        and (not through.get(key, Check()).passed or (through[key].complaints and not check.complaints))
    }


def _explain(reference: Check, through: Check) -> str:
    if through.complaints:
        return "; ".join(through.complaints)
    missing = ", ".join(sorted(reference.passed - through.passed))
    return f"vanished: {missing}"
