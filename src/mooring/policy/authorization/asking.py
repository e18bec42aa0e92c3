"""Asking the policies outside the chain: cases in a file, one question, or calls that were recorded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from mooring.gateway.principal import ANONYMOUS, Principal
from mooring.policy.authorization.engine import Decision, Engine, Question, Verdict

Json = dict[str, Any]
ENTITIES: Final = {"call_tool": "Tool", "get_prompt": "Prompt", "read_resource": "Resource"}
_BLOTTED_OUT: Final = "[redacted]"
_ABOUT_CALLERS: Final = re.compile(r"claim|principal\s+in\b")
_OF_EVENT: Final = {
    "mcp_tool_call": ("call_tool", "name"),
    "mcp_prompt_get": ("get_prompt", "name"),
    "mcp_resource_read": ("read_resource", "uri"),
}


class CaseMistake(ValueError):
    """A file of cases cannot be read."""


@dataclass(frozen=True, slots=True)
class Case:
    """One question, and what the answer should be."""

    name: str
    question: Question
    arguments: Json
    expected: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the policies say."""

    verdict: Verdict
    decision: Decision

    @property
    def allowed(self) -> bool:
        return self.decision.allowed


def ask(engine: Engine, question: Question, arguments: Json) -> Outcome:
    return Outcome(engine.verdict(question), engine.decide(question, arguments))


def question_of(entry: Json) -> Question:
    """A question as people write it: who, what, on which server."""
    action = str(entry.get("action", "call_tool"))
    if action not in ENTITIES:
        raise CaseMistake(f"there is no action `{action}`; known are {', '.join(ENTITIES)}")
    subject = str(entry["principal"])
    claims: Json = {"sub": subject, **(entry.get("claims") or {})}
    hints: Json | None = entry.get("hints")
    return Question(
        Principal(subject, subject, claims=claims),
        action,
        ENTITIES[action],
        str(entry["resource"]),
        str(entry.get("server", "")),
        entry.get("group"),
        hints,
    )


def read_cases(path: Path) -> list[Case]:
    """The cases of a YAML or JSON file: a list under `cases`."""
    try:
        yaml: Any = YAML(typ="safe")
        loaded: Any = yaml.load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CaseMistake(f"{path}: {(error.strerror or str(error)).lower()}") from error
    except (UnicodeDecodeError, YAMLError) as error:
        raise CaseMistake(f"{path}: {error}") from error
    listed: Any = cast("Json", loaded).get("cases") if isinstance(loaded, dict) else None
    if not isinstance(listed, list):
        raise CaseMistake(f"{path}: must have a list `cases`")
    return [_case(path, number, entry) for number, entry in enumerate(cast("list[Any]", listed), 1)]


def _case(path: Path, number: int, entry: Any) -> Case:
    try:
        expected = str(entry["expect"])
        if expected not in ("allow", "deny"):
            raise CaseMistake("`expect` must be `allow` or `deny`")
        name = str(entry.get("name", f"case {number}"))
        return Case(name, question_of(entry), entry.get("arguments") or {}, expected)
    except (KeyError, TypeError, AttributeError, CaseMistake) as error:
        why = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise CaseMistake(f"{path}: case {number}: {why}") from error


@dataclass(frozen=True, slots=True)
class Recorded:
    """A call in the audit log."""

    event: Json
    question: Question
    arguments: Json | None
    """None: the audit did not keep them, or not all of them."""

    @property
    def was_allowed(self) -> bool:
        return self.event["outcome"] != "denied"

    @property
    def refused_by(self) -> str | None:
        """What refused it, if that is known."""
        metadata: Json = self.event.get("metadata") or {}
        extra: Json = metadata.get("extra") or {}
        return extra.get("refused_by")

    @property
    def lacks_claims(self) -> bool:
        """Whether more was known of the caller than was written down."""
        subjects: Json = self.event["subjects"]
        return subjects["user_id"] != ANONYMOUS.id and "claims" not in subjects


def ask_about_callers(engine: Engine) -> bool:
    """Whether more counts for the policies than the name of a caller."""
    return any(_ABOUT_CALLERS.search(policy.text) for policy in engine.policies)


def recorded(events: Iterator[Json], groups: dict[str, str], default_group: str) -> Iterator[Recorded]:
    """The questions behind audit events, with the server's own name of a tool and its hints."""
    for event in events:
        about = _OF_EVENT.get(event.get("type", ""))
        if about is None:
            continue
        subjects, target = event["subjects"], event["target"]
        claims: Json = subjects.get("claims") or {}
        subject = str(claims.get("sub") or subjects["user"])
        server = str(target["endpoint"]).removeprefix("/mcp/")
        name = str(target.get("own_name") or target.get(about[1], ""))
        question = Question(
            Principal(str(subjects["user_id"]), subject, claims={"sub": subject, **claims}),
            about[0],
            ENTITIES[about[0]],
            name,
            server,
            target.get("group") or groups.get(server, default_group),
            target.get("hints"),
        )
        yield Recorded(event, question, _arguments(event))


def _arguments(event: Json) -> Json | None:
    data: Json = event.get("data") or {}
    request: Any = data.get("request")
    if not isinstance(request, dict) or "truncated" in request:
        return None
    found: Any = cast("Json", request).get("arguments")
    arguments = cast("Json", found) if isinstance(found, dict) else {}
    return None if _BLOTTED_OUT in json.dumps(arguments) else arguments


def shown(outcome: Outcome) -> str:
    """A decision in words."""
    word = "allowed" if outcome.allowed else "denied"
    if outcome.verdict is Verdict.DEPENDS:
        return f"{word}, because of the arguments"
    return word if outcome.allowed else f"{word}, and not visible"


def encoded(outcome: Outcome) -> Json:
    return {
        "allowed": outcome.allowed,
        "depends_on_arguments": outcome.verdict is Verdict.DEPENDS,
        "policies": [policy.label for policy in outcome.decision.because],
        "errors": list(outcome.decision.errors),
    }
