"""Task lists of storage format into ADF."""

from mooring.text.storage_ids import Extras
from mooring.text.storage_reading import Reading, identified, other_attributes
from mooring.text.storage_xml import Element
from mooring.text.tree import Node

STATES = {"incomplete": "TODO", "complete": "DONE"}
PARTS = ("ac:task-id", "ac:task-uuid", "ac:task-status", "ac:task-body")
# Confluence wraps each body in a span of this class; a list whose bodies are not says so.
SPAN_CLASS = "placeholder-inline-tasks"
UNWRAPPED = "unwrapped"


def read_tasks(reading: Reading, element: Element) -> Node | None:
    """The list, or None when a task holds more than text."""
    if not element.has_only_elements() or not element.elements():
        return None
    content: list[Node] = []
    for part in element.elements():
        node = read_tasks(reading, part) if part.name == "ac:task-list" else _task(reading, part)
        if node is None:
            return None
        content.append(node)
    given = element.attributes
    extras = other_attributes(element, "ac:task-list-id")
    made: Node = {"type": "taskList", "attrs": {"localId": ""}, "content": content}
    return identified(made, extras, given.get("ac:task-list-id")) if given else made


def _task(reading: Reading, task: Element) -> Node | None:
    parts = task.elements()
    names = tuple(part.name for part in parts)
    if task.name != "ac:task" or task.attributes or not task.has_only_elements():
        return None
    if names != tuple(name for name in PARTS if name in names) or names[-2:] != PARTS[-2:]:
        return None
    texts = {part.name: part.only_text() for part in parts[:-1]}
    state = STATES.get(texts["ac:task-status"] or "")
    if state is None or None in texts.values() or any(part.attributes for part in parts):
        return None
    body, extras = parts[-1], Extras()
    inner = body.elements()
    if len(body.children) == 1 and inner and _is_placeholder(inner[0]):
        content, spellings = reading.inline(inner[0].children)
    else:
        content, spellings = reading.inline(body.children)
        extras[UNWRAPPED] = "1"
    if any(_is_block(part) for part in inner):
        return None
    number, unique = texts.get("ac:task-id"), texts.get("ac:task-uuid")
    if unique is not None and number is not None:
        extras["task"] = number
    identifier = unique if unique is not None else number
    if unique is None and number is not None and not number.isdigit():
        extras["task"] = number
        identifier = None
    if unique is not None and number is None and unique.isdigit():
        return None
    node: Node = {"type": "taskItem", "attrs": {"localId": "", "state": state}}
    if content:
        node["content"] = content
    extras |= spellings
    return identified(node, extras, identifier) if extras or identifier else node


def _is_placeholder(part: Element) -> bool:
    return part.name == "span" and part.attributes == {"class": SPAN_CLASS}


def _is_block(part: Element) -> bool:
    return part.name in ("p", "ul", "ol", "table", "div", "ac:task-list", "blockquote")
