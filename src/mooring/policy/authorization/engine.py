"""Decisions: Cedar asked about one request, remembered wherever the arguments of the call cannot matter."""

from __future__ import annotations

import json
import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, cast

import cedarpy
import msgspec

from mooring.gateway.principal import Principal
from mooring.policy import files
from mooring.policy.authorization import relaxing
from mooring.policy.authorization.sources import (
    GROUP_TYPE,
    SERVER_GROUP_TYPE,
    SERVER_TYPE,
    Json,
    PolicyMistake,
    Sources,
    Written,
    read_sources,
)
from mooring.policy.catalogue import key_of

log = logging.getLogger(__name__)

REMEMBERED_PRINCIPALS: Final = 1_000
REMEMBERED_EACH: Final = 5_000
_INTEGERS: Final = range(-(2**63), 2**63)
# The library types its dictionaries as unknown; naming it here keeps that in one place.
_is_authorized: Final = cast("Callable[..., cedarpy.AuthzResult]", cedarpy.is_authorized)  # pyright: ignore[reportUnknownMemberType]
_POLICY_IN_ERROR: Final = re.compile(r"policy `policy(\d+)`")


class Verdict(Enum):
    """What is known before the arguments are."""

    ALLOWED = "allowed"
    DENIED = "denied"
    DEPENDS = "depends on the arguments"


class Question(msgspec.Struct, frozen=True):
    """May this principal do this with that? A Struct because one is made for every call."""

    principal: Principal
    action: str
    kind: str
    name: str
    server: str
    server_group: str | None = None
    hints: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer, and the policies that made it."""

    allowed: bool
    because: tuple[Written, ...] = ()
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Compiled:
    """One policy set in its three forms."""

    sources: Sources
    exact: Any
    hopeful: Any
    fearful: Any
    base: tuple[Json, ...]

    @property
    def has_arguments(self) -> bool:
        return self.hopeful is not self.exact


class Engine:
    """The policies of a configuration; looks at its files again when they have changed."""

    def __init__(
        self,
        policy_files: tuple[Path, ...],
        entities_file: Path | None,
        *,
        group_claim: str | None = None,
        role_claim: str | None = None,
    ) -> None:
        self._files = policy_files
        self._entities_file = entities_file
        self._group_claim = group_claim
        self._role_claim = role_claim
        self._stamps = self._look()
        self._compiled = _compile(read_sources(policy_files, entities_file))
        self.version = self._compiled.sources.version
        self._remembered: OrderedDict[Principal, dict[object, Verdict]] = OrderedDict()

    @property
    def policies(self) -> tuple[Written, ...]:
        return self._compiled.sources.policies

    def refresh(self) -> None:
        """Take changed files into use. A mistake in them changes nothing but the log."""
        stamps = self._look()
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            compiled = _compile(read_sources(self._files, self._entities_file))
        except PolicyMistake as error:
            log.error("the policies were not reloaded, the old ones stay: %s", error)  # noqa: TRY400 - no trace
            return
        self._compiled = compiled
        self.version = compiled.sources.version
        self._remembered.clear()
        log.info("policies reloaded: version %s", compiled.sources.version)

    def _look(self) -> list[tuple[int, int, int]]:
        given = (*self._files, self._entities_file) if self._entities_file is not None else self._files
        return [files.stamp(file) for file in given]

    # Asking

    def verdict(self, question: Question) -> Verdict:
        """What can be said without looking at arguments; remembered."""
        known = self._remembered.get(question.principal)
        if known is None:
            known = self._remembered[question.principal] = {}
            if len(self._remembered) > REMEMBERED_PRINCIPALS:
                self._remembered.popitem(last=False)
        hints = key_of(question.hints) if question.hints else ()
        key = (question.server, question.server_group, question.action, question.name, hints)
        found = known.get(key)
        if found is None:
            if len(known) >= REMEMBERED_EACH:
                known.clear()
            found = known[key] = self._verdict(question)
        return found

    def _verdict(self, question: Question) -> Verdict:
        compiled = self._compiled
        if not self._ask(question, compiled.hopeful, {}).allowed:
            return Verdict.DENIED
        if not compiled.has_arguments or self._ask(question, compiled.fearful, {}).allowed:
            return Verdict.ALLOWED
        return Verdict.DEPENDS

    def decide(self, question: Question, arguments: Mapping[str, Any]) -> Decision:
        """The decision about exactly this call."""
        return self._ask(question, self._compiled.exact, arguments)

    def forbids(self, question: Question, arguments: Mapping[str, Any] | None = None) -> bool:
        """Whether a policy says no; that none says yes is not enough. No arguments: whatever they are."""
        compiled = self._compiled
        policies = compiled.hopeful if arguments is None else compiled.exact
        decision = self._ask(question, policies, arguments or {})
        return self._forbids_in_vain(decision.errors) or any(policy.is_forbid for policy in decision.because)

    def _ask(self, question: Question, policies: Any, arguments: Mapping[str, Any]) -> Decision:
        sources = self._compiled.sources
        claims = _claims(question.principal)
        given = _arguments(arguments)
        request = {
            "principal": {"type": "Client", "id": question.principal.subject},
            "action": {"type": "Action", "id": question.action},
            "resource": {"type": question.kind, "id": question.name},
            "context": {**claims, **given},
        }
        try:
            entities = self._entities(question, claims, given)
            result = _is_authorized(request, policies, json.dumps(entities))
        except (ValueError, TypeError) as error:
            return Decision(False, (), (str(error),))  # what cannot be asked is not allowed
        errors = tuple(result.diagnostics.errors)
        because = tuple(_named(sources, result.diagnostics.reasons))
        if result.decision is cedarpy.Decision.NoDecision or self._forbids_in_vain(errors):
            return Decision(False, because, errors)
        return Decision(result.allowed, because, errors)

    def _forbids_in_vain(self, errors: tuple[str, ...]) -> bool:
        """Cedar skips a policy that fails. A `permit` that fails permits nothing; a `forbid` that fails must
        still forbid."""
        for error in errors:
            found = _POLICY_IN_ERROR.search(error)
            if found is None or self._compiled.sources.policies[int(found[1])].is_forbid:
                return True
        return False

    def _entities(self, question: Question, claims: Json, given: Json) -> list[Json]:
        server = {"type": SERVER_TYPE, "id": question.server}
        group = question.server_group
        own: list[Json] = [
            {
                "uid": {"type": "Client", "id": question.principal.subject},
                "attrs": claims,
                "parents": self._groups(question.principal),
            },
            {
                "uid": {"type": question.kind, "id": question.name},
                "attrs": {
                    "name": question.name,
                    "operation": question.action.partition("_")[0],
                    "feature": question.action.partition("_")[2],
                    **_scalars(question.hints or {}),
                    **given,
                },
                "parents": [server],
            },
            {
                "uid": server,
                "attrs": {"name": question.server},
                "parents": [{"type": SERVER_GROUP_TYPE, "id": group}] if group is not None else [],
            },
        ]
        return _merged(self._compiled.base, own)

    def _groups(self, principal: Principal) -> list[Json]:
        sources = self._compiled.sources
        kind = sources.group_type or GROUP_TYPE
        names: dict[str, None] = {}
        for claim in (sources.group_claim or self._group_claim, sources.role_claim or self._role_claim):
            value = principal.claims.get(claim) if claim is not None else None
            listed = cast("list[Any]", value) if isinstance(value, list) else [value]
            names.update((name, None) for name in listed if isinstance(name, str))
        return [{"type": kind, "id": name} for name in names]


def _compile(sources: Sources) -> _Compiled:
    exact = _policy_set([policy.text for policy in sources.policies])
    hopeful = fearful = exact
    if any(relaxing.depends_on_arguments(policy.parsed) for policy in sources.policies):
        hopeful = _policy_set([_as_text(relaxing.could_allow(policy.parsed)) for policy in sources.policies])
        fearful = _policy_set([_as_text(relaxing.could_deny(policy.parsed)) for policy in sources.policies])
    return _Compiled(sources, exact, hopeful, fearful, sources.entities)


def _policy_set(texts: list[str]) -> Any:
    return cedarpy.PolicySet.from_str("\n".join(texts))


def _as_text(policy: Json) -> str:
    whole: Json = {"templates": {}, "staticPolicies": {"policy0": policy}, "templateLinks": []}
    return cedarpy.policies_from_json_str(json.dumps(whole))


def _named(sources: Sources, reasons: list[str]) -> list[Written]:
    return [sources.policies[int(reason.removeprefix("policy"))] for reason in reasons]


def _claims(principal: Principal) -> Json:
    """`claim_*`; what is neither a scalar nor a list of scalars is only said to be there."""
    attributes: Json = {}
    for name, value in {"sub": principal.subject, **principal.claims}.items():
        if isinstance(value, (list, tuple, set, frozenset)):
            texts = [item for item in cast("list[Any]", value) if isinstance(item, (str, bool, int))]
            attributes[f"claim_{name}"] = attributes[f"claimset_{name}"] = texts
        elif (scalar := _scalar(value)) is not None:
            attributes[f"claim_{name}"] = scalar
            if name in ("scope", "scp") and isinstance(scalar, str):
                attributes[f"claimset_{name}"] = scalar.split()
        elif value is not None:
            attributes[f"claim_{name}_present"] = True
    return attributes


def _arguments(arguments: Mapping[str, Any]) -> Json:
    """`arg_*`; of lists, objects and numbers that Cedar does not know, only that they are there."""
    attributes: Json = {}
    for name, value in arguments.items():
        scalar = _scalar(value)
        attributes[f"arg_{name}" if scalar is not None else f"arg_{name}_present"] = (
            scalar if scalar is not None else True
        )
    return attributes


def _scalars(values: Mapping[str, Any]) -> Json:
    return {name: value for name, value in values.items() if isinstance(value, (str, bool))}


def _scalar(value: Any) -> str | bool | int | None:
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, int) and value in _INTEGERS:
        return value
    return str(value) if isinstance(value, float) else None


def _merged(base: tuple[Json, ...], own: list[Json]) -> list[Json]:
    """The entities of the file with those of the request; about one entity both may say something."""
    if not base:
        return own
    by_name = {(entity["uid"]["type"], entity["uid"]["id"]): entity for entity in map(_plain, base)}
    for entity in own:
        key = (entity["uid"]["type"], entity["uid"]["id"])
        known = by_name.get(key)
        if known is not None:
            # What the request says about itself wins over a file that may be older.
            known_attributes: Json = known.get("attrs") or {}
            known_parents: list[Json] = known.get("parents") or []
            by_name[key] = {
                "uid": entity["uid"],
                "attrs": {**known_attributes, **entity["attrs"]},
                "parents": [*known_parents, *entity["parents"]],
            }
        else:
            by_name[key] = entity
    return list(by_name.values())


def _plain(entity: Json) -> Json:
    uid = entity["uid"]
    return {**entity, "uid": uid.get("__entity", uid)}
