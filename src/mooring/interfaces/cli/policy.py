"""`mooring policy`: try policies before somebody depends on them."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from mooring.config.guard_records import AUDIT_FILE
from mooring.config.loading import ConfigError, load
from mooring.config.schema import Config
from mooring.interfaces.cli.arguments import tool_arguments
from mooring.interfaces.cli.audit import wanted_events
from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.output import one_line, print_table
from mooring.policy.authorization import asking
from mooring.policy.authorization.engine import Engine, Verdict
from mooring.policy.authorization.guarding import NAME as AUTHORIZATION
from mooring.policy.authorization.sources import PolicyMistake
from mooring.workloads.store import DEFAULT_GROUP

Json = dict[str, Any]
_LEFT_OUT = {
    "refused_otherwise": "that something else refused (a limit, a filter, a webhook, a person)",
    "without_claims": "whose callers' claims were not written down (`audit.include_claims`)",
    "without_arguments": "that depend on arguments which were not written down whole "
    "(`audit.include_request_data`, `audit.max_data_bytes`)",
}


def test(arguments: argparse.Namespace) -> int:
    """Exit 0 if every case is decided as expected."""
    engine, _ = _engine(arguments)
    try:
        cases = asking.read_cases(Path(arguments.cases))
    except asking.CaseMistake as error:
        raise Failed(str(error)) from error
    failed = 0
    results: list[Json] = []
    for case in cases:
        outcome = asking.ask(engine, case.question, case.arguments)
        right = outcome.allowed is (case.expected == "allow")
        failed += not right
        results.append({"name": case.name, "passed": right, **asking.encoded(outcome)})
        if arguments.format == "text" and not right:
            print(
                f"FAILED {one_line(case.name)}: expected {case.expected}, but it is {asking.shown(outcome)}"
            )
            _print_reasons(outcome)
    if arguments.format == "json":
        print(json.dumps(results))
    print(f"{len(cases) - failed} of {len(cases)} cases as expected", file=sys.stderr)
    return 1 if failed else 0


def explain(arguments: argparse.Namespace) -> int:
    """Print the decision and the policies that made it."""
    engine, config = _engine(arguments)
    claims = tool_arguments(arguments.claim, dict)
    groups = _groups(config)
    question = asking.question_of(
        {
            "principal": arguments.principal,
            "claims": claims,
            "action": arguments.action,
            "resource": arguments.resource,
            "server": arguments.server,
            "group": arguments.group or groups.get(arguments.server, DEFAULT_GROUP),
            "hints": dict.fromkeys(arguments.hint, True),
        }
    )
    outcome = asking.ask(engine, question, tool_arguments(arguments.arguments, dict))
    if arguments.format == "json":
        print(json.dumps(asking.encoded(outcome)))
    else:
        print(asking.shown(outcome))
        _print_reasons(outcome)
    return 0


def simulate(arguments: argparse.Namespace) -> int:
    """Print the calls that would be decided otherwise."""
    engine, config = _engine(arguments)
    path = Path(arguments.file) if arguments.file else None
    if path is None and config is not None:
        path = config.audit.file or config.storage.root / AUDIT_FILE
    if path is None or not path.exists():
        raise Failed(f"there is no audit log at `{path}`: give it with --file")
    groups = _groups(config)
    rows: list[tuple[str, ...]] = []
    changed: list[Json] = []
    counts = dict.fromkeys(("calls", *_LEFT_OUT), 0)
    about_callers = asking.ask_about_callers(engine)
    for call in asking.recorded(wanted_events(arguments.since, path), groups, DEFAULT_GROUP):
        counts["calls"] += 1
        outcome = asking.ask(engine, call.question, call.arguments or {})
        left_out = _left_out(call, outcome, about_callers)
        if left_out is not None:
            counts[left_out] += 1
        elif outcome.allowed is not call.was_allowed:
            rows.append(_row(call, outcome))
            encoded = asking.encoded(outcome)
            changed.append({"audit_id": call.event["audit_id"], "before": call.was_allowed, **encoded})
    if arguments.format == "json":
        print(json.dumps({**counts, "changed": changed}))
    elif rows:
        print_table(("time", "who", "what", "was", "would be"), rows, sys.stdout)
    decided = f"{len(changed)} of {counts['calls']} recorded calls would be decided otherwise"
    print(decided, file=sys.stderr)
    for name, words in _LEFT_OUT.items():
        if counts[name]:
            print(f"left out: {counts[name]} {words}", file=sys.stderr)
    return 0


def _left_out(call: asking.Recorded, outcome: asking.Outcome, about_callers: bool) -> str | None:
    """Why nothing can be said about a recorded call, if so."""
    if not call.was_allowed and call.refused_by not in (None, AUTHORIZATION):
        return "refused_otherwise"
    if about_callers and call.lacks_claims:
        return "without_claims"
    if outcome.verdict is Verdict.DEPENDS and call.arguments is None:
        return "without_arguments"
    return None


def _row(call: asking.Recorded, outcome: asking.Outcome) -> tuple[str, ...]:
    question = call.question
    words = ("allowed" if call.was_allowed else "denied", asking.shown(outcome))
    who, what = question.principal.subject, f"{question.server} {question.name}"
    return (call.event["logged_at"][:19].replace("T", " "), one_line(who), one_line(what), *words)


def _groups(config: Config | None) -> dict[str, str]:
    return {server.id: server.group for server in config.servers if server.group} if config else {}


def _engine(arguments: argparse.Namespace) -> tuple[Engine, Config | None]:
    config = None
    if not arguments.policies or Path(arguments.config).exists():
        try:
            config = load(Path(arguments.config))
        except ConfigError as error:
            raise Failed(str(error)) from error
    section = config.authorization if config is not None else None
    files = [Path(name) for name in arguments.policies] or (section.policies if section is not None else [])
    if not files:
        raise Failed("there are no policies: set `authorization.policies`, or give --policies FILE")
    try:
        engine = Engine(
            tuple(files),
            section.entities if section is not None else None,
            group_claim=section.group_claim if section is not None else "groups",
            role_claim=section.role_claim if section is not None else None,
        )
    except PolicyMistake as mistake:
        raise Failed(str(mistake)) from mistake
    return engine, config


def _print_reasons(outcome: asking.Outcome) -> None:
    for policy in outcome.decision.because:
        kind = "forbidden" if policy.is_forbid else "permitted"
        named = f"{one_line(policy.label)}, " if policy.label != policy.place else ""
        print(f"  {kind} by {named}{policy.place}")
    for error in outcome.decision.errors:
        print(f"  skipped: {one_line(error)}")
    if not outcome.decision.because:
        print("  no policy permits it")
