"""Who wants to hear of which changes, and the one wish that follows from it for the server's side."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

import msgspec
from msgspec import Raw

TOOLS_CHANGED: Final = "notifications/tools/list_changed"
PROMPTS_CHANGED: Final = "notifications/prompts/list_changed"
RESOURCES_CHANGED: Final = "notifications/resources/list_changed"
RESOURCE_UPDATED: Final = "notifications/resources/updated"
TASK_CHANGED: Final = "notifications/tasks"
CHANGES: Final = frozenset(
    {TOOLS_CHANGED, PROMPTS_CHANGED, RESOURCES_CHANGED, RESOURCE_UPDATED, TASK_CHANGED}
)


class Filter(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The filter of `subscriptions/listen` (2026-07-28), which also serves as our own notion of a wish."""

    tools_list_changed: bool = False
    prompts_list_changed: bool = False
    resources_list_changed: bool = False
    resource_subscriptions: tuple[str, ...] = ()
    task_ids: tuple[str, ...] = ()

    def matches(self, method: str, subject: str | None) -> bool:
        match method:
            case "notifications/tools/list_changed":
                return self.tools_list_changed
            case "notifications/prompts/list_changed":
                return self.prompts_list_changed
            case "notifications/resources/list_changed":
                return self.resources_list_changed
            case "notifications/resources/updated":
                return subject in self.resource_subscriptions
            case "notifications/tasks":
                return subject in self.task_ids
            case _:
                return False

    def within(self, other: Filter) -> Filter:
        """The part of this wish that the other grants."""
        return Filter(
            self.tools_list_changed and other.tools_list_changed,
            self.prompts_list_changed and other.prompts_list_changed,
            self.resources_list_changed and other.resources_list_changed,
            tuple(uri for uri in self.resource_subscriptions if uri in other.resource_subscriptions),
            tuple(task for task in self.task_ids if task in other.task_ids),
        )


NOTHING: Final = Filter()
LIST_CHANGES: Final = Filter(tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True)


class Subscriber(Protocol):
    """A legacy session, or one listen stream of a modern client."""

    wants: Filter

    def deliver(self, method: str, params: Raw | bytes) -> None: ...
    def end(self, reason: str) -> None: ...


def union(filters: Iterable[Filter]) -> Filter:
    tools = prompts = resources = False
    uris: dict[str, None] = {}
    tasks: dict[str, None] = {}
    for wish in filters:
        tools |= wish.tools_list_changed
        prompts |= wish.prompts_list_changed
        resources |= wish.resources_list_changed
        uris.update(dict.fromkeys(wish.resource_subscriptions))
        tasks.update(dict.fromkeys(wish.task_ids))
    return Filter(tools, prompts, resources, tuple(uris), tuple(tasks))


class _Subject(msgspec.Struct, frozen=True):
    uri: str | None = None
    task_id: str | None = msgspec.field(default=None, name="taskId")


def subject_of(params: Raw | bytes) -> str | None:
    """Which resource or task a change is about."""
    if not params:
        return None
    try:
        subject = msgspec.json.decode(params, type=_Subject)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return subject.uri or subject.task_id


def deliver(subscribers: Iterable[Subscriber], method: str, params: Raw | bytes) -> None:
    """Tell everybody who asked for it, and nobody else."""
    subject = subject_of(params)
    for subscriber in list(subscribers):
        if subscriber.wants.matches(method, subject):
            subscriber.deliver(method, params)
