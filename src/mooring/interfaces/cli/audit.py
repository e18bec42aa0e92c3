"""`mooring audit`: check that the audit log is whole, and read it."""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from mooring.config.guarding import AUDIT_FILE, AUDIT_KEY
from mooring.interfaces.cli.failure import Failed, reason_of
from mooring.interfaces.cli.gateway_socket import find_socket
from mooring.interfaces.cli.output import milliseconds, one_line, print_table, styled, wants_colour
from mooring.interfaces.cli.spans import seconds
from mooring.policy.audit.events import TOOL_DRIFT
from mooring.policy.audit.verifying import Report, lines_of, public_key, verify

_STYLES = {"success": "", "denied": "yellow", "failure": "red", "error": "red", "application_error": "yellow"}
_WORDS = {"application_error": "tool error"}


def run_verify(arguments: argparse.Namespace) -> int:
    """Say what the files prove, or what is wrong with them."""
    path, key_path = _places(arguments)
    try:
        report = verify(path, public_key(key_path))
    except FileNotFoundError as error:
        raise Failed(
            f"there is no `{error.filename}`: write one with `audit: {{enabled: true}}` in mooring.yaml, or "
            "name the log with --file and its key with --public-key"
        ) from error
    except (OSError, ValueError, TypeError) as error:
        raise Failed(f"the audit log cannot be checked: {reason_of(error)}") from error
    if arguments.format == "json":
        findings = [
            {"file": str(found.file), "line": found.line, "message": found.message}
            for found in report.findings
        ]
        shown = {"lines": report.lines, "checkpoints": report.checkpoints, "first": report.first}
        print(json.dumps({**shown, "last": report.last, "sealed": report.sealed, "findings": findings}))
    else:
        for found in report.findings:
            print(f"{found.file}{f':{found.line}' if found.line else ''}: {found.message}")
        print(_verdict(report))
    return 1 if report.findings else 0


def show(arguments: argparse.Namespace) -> int:
    """Print events, filtered, oldest first."""
    path, _ = _places(arguments)
    if not path.exists():
        raise Failed(f"there is no audit log at `{path}`: set `audit.enabled: true`, or give its --file")
    events = list(_wanted(arguments, path))
    if arguments.limit:
        events = events[-arguments.limit :]
    if arguments.format == "json":
        for event in events:
            print(json.dumps(event, separators=(",", ":"), ensure_ascii=False))
        return 0
    if not events:
        print("no event is like that", file=sys.stderr)
    colour = wants_colour(sys.stdout)
    for day, those in itertools.groupby(events, lambda event: str(event["logged_at"])[:10]):
        print(f"{day} (UTC)")
        print_table(("time", "outcome", "who", "took", "what"), [_row(event, colour) for event in those])
    return 0


def _verdict(report: Report) -> str:
    verdict = "NOT intact" if report.findings else "intact"
    if not report.lines:
        return f"{verdict}: there are no lines yet"
    lines = f"{verdict}: {report.lines} lines, {report.first} to {report.last}"
    if report.sealed < 0:
        return f"{lines}; none is signed yet: the first checkpoint follows within seconds of the last line"
    return f"{lines}; {report.checkpoints} checkpoints, signed up to {report.sealed}"


def _wanted(arguments: argparse.Namespace, path: Path) -> Iterator[dict[str, Any]]:
    return (event for event in wanted_events(arguments.since, path) if _matches(arguments, event))


def wanted_events(since: str | None, path: Path) -> Iterator[dict[str, Any]]:
    """The events of a log, not older than a time span."""
    oldest = ""
    if since:
        moment = datetime.fromtimestamp(time.time() - seconds("--since", since), UTC)
        oldest = moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
    for _, _, line in lines_of(path):
        try:
            event = json.loads(line)
        except ValueError:
            continue  # which `verify` is there to report
        if "target" in event and event["logged_at"] >= oldest:
            yield event


def _matches(arguments: argparse.Namespace, event: dict[str, Any]) -> bool:
    target, subjects = event["target"], event["subjects"]
    checks = (
        (arguments.server, target["endpoint"] == f"/mcp/{arguments.server}"),
        (arguments.user, arguments.user in (subjects["user"], subjects["user_id"])),
        (arguments.tool, arguments.tool in (target.get("name"), target.get("own_name"))),
        (arguments.type, event["type"] == arguments.type),
        (arguments.outcome, event["outcome"] == arguments.outcome),
    )
    return all(holds for wanted, holds in checks if wanted)


def _row(event: dict[str, Any], colour: bool) -> tuple[str, ...]:
    target, extra = event["target"], event["metadata"]["extra"]
    outcome: str = event["outcome"]
    method = event["type"] if event["type"] == TOOL_DRIFT else target["method"] or event["type"]
    parts = (target["endpoint"].removeprefix("/mcp/"), method, target.get("name") or target.get("uri"))
    what = " ".join(part for part in parts if part)
    why = _reason(extra)
    if parts[2] and why.endswith(f": {parts[2]}"):
        why = ""  # as "Unknown tool: x" does, it says no more than the rest of the line
    return (
        event["logged_at"][11:23],
        styled(_WORDS.get(outcome, outcome), _STYLES.get(outcome, ""), colour),
        one_line(event["subjects"]["user"]),
        milliseconds(extra["duration_ms"]) if "duration_ms" in extra else "",
        one_line(f"{what}: {why}" if why else what),
    )


def _reason(extra: dict[str, Any]) -> str:
    """Why it ended as it did, as far as the log knows."""
    for name in ("lock", "drift"):
        found: object = extra.get(name)
        if isinstance(found, dict):
            return "; ".join(f"{tool}: {words}" for tool, words in cast("dict[str, Any]", found).items())
    return str(extra.get("reason") or extra.get("error") or "")


def _places(arguments: argparse.Namespace) -> tuple[Path, Path]:
    """The log and the public key that belong together."""
    file, root = audit_places(arguments)
    if arguments.file:
        file = Path(arguments.file)
    key = getattr(arguments, "public_key", None)
    return file, Path(key) if key else root / AUDIT_KEY.replace(".key", ".pub")


def audit_places(arguments: argparse.Namespace) -> tuple[Path, Path]:
    """The audit file of the gateway that is meant, and its data directory."""
    if arguments.config:
        from mooring.config.loading import ConfigError, load  # noqa: PLC0415 - slow

        try:
            config = load(Path(arguments.config))
        except ConfigError as error:
            raise Failed(str(error)) from error
        return config.audit.file or config.storage.root / AUDIT_FILE, config.storage.root
    root = find_socket(arguments).parent
    return root / AUDIT_FILE, root
