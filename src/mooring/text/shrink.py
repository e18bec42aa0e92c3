"""Find the smallest document that still shows a fault: leave things out and look again."""

from collections.abc import Callable, Iterator

from mooring.text import formats
from mooring.text.report import Report
from mooring.text.tree import Node, attributes, children, doc, equal, marks_of

# Each check is a conversion there and back; a page needs a few hundred.
MAX_CHECKS = 3000


def breaks_round_trip(target: str, dialect: str = "extended") -> Callable[[Node], bool]:
    """Does a document change on the way to `target` and back? An error counts as a change."""
    read, write = formats.reader(target), formats.writer(target)

    def broken(document: Node) -> bool:
        try:
            return not equal(document, read(write(document, Report(), dialect=dialect), Report()))
        except Exception:  # noqa: BLE001  (whatever goes wrong in a conversion is the fault we look for)
            return True

    return broken


def shrink(document: Node, broken: Callable[[Node], bool]) -> Node | None:
    """The smallest document found for which `broken` holds, or None when it does not hold at all."""
    if not broken(document):
        return None
    checks = 0
    best = document
    improved = True
    while improved:
        improved = False
        for candidate in _smaller(best):
            checks += 1
            if checks > MAX_CHECKS:
                return best
            if broken(candidate):
                best, improved = candidate, True
                break
    return best


def _smaller(document: Node) -> Iterator[Node]:
    """Simpler versions, the boldest cuts first."""
    content = children(document)
    if len(content) > 1:
        half = len(content) // 2
        yield doc(*content[:half])
        yield doc(*content[half:])
        for child in content:
            yield doc(child)
    for index in range(len(content)):
        for replacement in _smaller_nodes(content[index]):
            yield doc(*content[:index], *replacement, *content[index + 1 :])


def _smaller_nodes(item: Node) -> Iterator[list[Node]]:
    content = children(item)
    if content and content[0].get("type") != "text" and item["type"] not in ("paragraph", "heading"):
        yield content
    for index in range(len(content)):
        rest = [*content[:index], *content[index + 1 :]]
        if rest or item["type"] in ("paragraph", "heading"):
            yield [_with_content(item, rest)]
    for name in attributes(item):
        attrs = {key: value for key, value in attributes(item).items() if key != name}
        yield [
            {
                **{key: value for key, value in item.items() if key != "attrs"},
                **({"attrs": attrs} if attrs else {}),
            }
        ]
    for mark in marks_of(item):
        yield [{**item, "marks": [each for each in marks_of(item) if each is not mark]}]
    yield from _shorter_text(item)
    for index, child in enumerate(content):
        for replacement in _smaller_nodes(child):
            yield [_with_content(item, [*content[:index], *replacement, *content[index + 1 :]])]


def _shorter_text(item: Node) -> Iterator[list[Node]]:
    words = item.get("text")
    if item.get("type") != "text" or not isinstance(words, str) or len(words) < 2:
        return
    half = len(words) // 2
    for shorter in (words[:half], words[half:], words[1:], words[:-1]):
        yield [{**item, "text": shorter}]


def _with_content(item: Node, content: list[Node]) -> Node:
    made = {key: value for key, value in item.items() if key != "content"}
    return {**made, "content": content} if content else made
