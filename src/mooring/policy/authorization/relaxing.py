"""What a policy could say if the arguments of a call were anything at all.

A policy in Cedar's JSON form is rewritten so that every condition on arguments becomes a constant: the one
that makes the request as likely as possible to be allowed (`could_allow`), or to be denied (`could_deny`).
If the first still denies, no arguments help; if the second still allows, none hurt. In between the arguments
decide.
"""

from __future__ import annotations

from typing import Any, Final, cast

Json = dict[str, Any]
ARGUMENT: Final = "arg_"
_ACCESS: Final = (".", "has")


def mentions_arguments(node: Any) -> bool:
    """Whether the value of an expression can depend on the arguments of the call."""
    if isinstance(node, list):
        return any(mentions_arguments(item) for item in cast("list[Any]", node))
    if not isinstance(node, dict):
        return False
    expression = cast("Json", node)
    for operator in _ACCESS:
        inner = expression.get(operator)
        if isinstance(inner, dict) and "attr" in inner:
            return _access(cast("Json", inner))
    if expression.get("Var") == "context":
        return True  # the context as a whole holds the arguments
    if "Value" in expression:
        return False
    return any(mentions_arguments(value) for value in expression.values())


def _access(inner: Json) -> bool:
    left = inner["left"]
    if left in ({"Var": "context"}, {"Var": "resource"}):
        names = inner["attr"]
        parts = cast("list[str]", names) if isinstance(names, list) else [str(names)]
        return parts[0].startswith(ARGUMENT)
    return mentions_arguments(left)


def depends_on_arguments(policy: Json) -> bool:
    return any(mentions_arguments(condition["body"]) for condition in policy["conditions"])


def could_allow(policy: Json) -> Json:
    """The policy with arguments as the caller could wish them."""
    return _relaxed(policy, applies=policy["effect"] == "permit")


def could_deny(policy: Json) -> Json:
    """The policy with arguments as unfortunate as they can be."""
    return _relaxed(policy, applies=policy["effect"] != "permit")


def _relaxed(policy: Json, *, applies: bool) -> Json:
    conditions = [
        {
            "kind": condition["kind"],
            "body": _leaning(condition["body"], applies if condition["kind"] == "when" else not applies),
        }
        for condition in policy["conditions"]
    ]
    return {**policy, "conditions": conditions}


def _leaning(node: Json, wanted: bool) -> Json:
    """The expression with its argument-dependent parts decided so that it becomes `wanted` if it can."""
    if not mentions_arguments(node):
        return node
    for operator in ("&&", "||"):
        if operator in node:
            sides = node[operator]
            return {operator: {side: _leaning(sides[side], wanted) for side in ("left", "right")}}
    if "!" in node:
        return {"!": {"arg": _leaning(node["!"]["arg"], not wanted)}}
    if "if-then-else" in node:
        return _leaning_choice(node["if-then-else"], wanted)
    return {"Value": wanted}


def _leaning_choice(choice: Json, wanted: bool) -> Json:
    branches = {name: _leaning(choice[name], wanted) for name in ("then", "else")}
    if not mentions_arguments(choice["if"]):
        return {"if-then-else": {"if": choice["if"], **branches}}
    return {"||" if wanted else "&&": {"left": branches["then"], "right": branches["else"]}}
