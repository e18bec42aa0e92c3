"""The sections of a stored document, as a list a model can choose from, and how a target names one."""

import hashlib
from dataclasses import dataclass
from typing import Any, Literal

from mooring.text import formats
from mooring.text.errors import PatchRefused
from mooring.text.json_spans import Located, locate_nodes
from mooring.text.report import Report
from mooring.text.tree import TEXT_BLOCKS, attributes, children, compact_json, plain_text

Scope = Literal["body", "subtree"]
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Target:
    """Names one part: a section by `heading` path, a section or block by `ref`, a block by its exact `text`.

    `scope` says whether a section's subsections belong to it. `expected_sha` (from the outline) refuses the
    patch when somebody else has changed the part in the meantime.
    """

    heading: tuple[str, ...] = ()
    ref: str | None = None
    text: str | None = None
    occurrence: int | None = None
    scope: Scope = "body"
    expected_sha: str | None = None

    def __str__(self) -> str:
        if self.ref is not None:
            return f"ref `{self.ref}`"
        return f"text `{self.text}`" if self.text is not None else f"`{' > '.join(self.heading)}`"


@dataclass(frozen=True, slots=True)
class Entry:
    """A heading with what belongs to it: `chars` and `sha` cover heading and subsections."""

    ref: str
    level: int
    text: str
    path: tuple[str, ...]
    blocks: int
    chars: int
    sha: str


def outline(source: Any, source_format: str) -> list[Entry]:
    """Every section in order, also those inside layouts, panels, expands and cells."""
    if source_format == "adf":
        text = source if isinstance(source, str) else compact_json(source)
        return [section.entry(text) for section in adf_sections(locate_nodes(text))]
    read = formats.reader(source_format)
    return [
        Entry(
            each.ref,
            each.level,
            each.text,
            each.path,
            len(children(read(source[each.content_start : each.end], Report(), lenient=True))),
            each.end - each.start,
            sha(source[each.start : each.end]),
        )
        for each in formats.module(source_format).outline(source)
    ]


def sha(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class AdfSection:
    """A heading in a container: its own index, where the body ends, where the subtree ends."""

    ref: str
    level: int
    path: tuple[str, ...]
    parent: Located
    heading: int
    body_end: int
    end: int

    def entry(self, source: str) -> Entry:
        start, stop = self.parent.content[self.heading].start, self.parent.content[self.end - 1].end
        blocks = self.end - self.heading - 1
        return Entry(
            self.ref, self.level, self.path[-1], self.path, blocks, stop - start, sha(source[start:stop])
        )


def adf_sections(document: Located) -> list[AdfSection]:
    made: list[AdfSection] = []
    _walk(document, (), made, {})
    return made


def _walk(
    parent: Located, around: tuple[str, ...], made: list[AdfSection], seen: dict[tuple[str, ...], int]
) -> None:
    content = parent.content
    levels = [_level(child) for child in content]
    stack: list[tuple[int, tuple[str, ...]]] = []
    for index, child in enumerate(content):
        level = levels[index]
        if level is None:
            if child.node.get("type") not in TEXT_BLOCKS:
                _walk(child, stack[-1][1] if stack else around, made, seen)
            continue
        while stack and stack[-1][0] >= level:
            stack.pop()
        path = (*(stack[-1][1] if stack else around), " ".join(plain_text(child.node).split()))
        stack.append((level, path))
        body_end = next((at for at in range(index + 1, len(content)) if levels[at] is not None), len(content))
        end = next((at for at in range(index + 1, len(content)) if (levels[at] or 7) <= level), len(content))
        seen[path] = seen.get(path, 0) + 1
        own = attributes(child.node).get("localId")
        ref = own if isinstance(own, str) and own else "s" + sha("\x1f".join([*path, str(seen[path])]))[:10]
        made.append(AdfSection(ref, level, path, parent, index, body_end, end))


def _level(item: Located) -> int | None:
    level = attributes(item.node).get("level")
    return int(level) if item.node.get("type") == "heading" and isinstance(level, int | float) else None


def choose(matching: list[Any], everything: list[Any], target: Target) -> Any:
    """The one match, or a refusal that names the candidates."""
    if target.occurrence is not None and 1 <= target.occurrence <= len(matching):
        return matching[target.occurrence - 1]
    if len(matching) == 1 and target.occurrence is None:
        return matching[0]
    if not matching:
        raise PatchRefused(f"nothing matches {target}; there are {_listed(everything)}")
    raise PatchRefused(
        f"{target} matches {len(matching)} places: {_listed(matching)}; "
        "give a `ref` or an `occurrence` from 1"
    )


def _listed(sections: list[Any]) -> str:
    shown = ", ".join(
        f"`{' > '.join(each.path)}`" + (f" (ref `{each.ref}`)" if each.ref else "")
        for each in sections[:_SHOWN]
    )
    rest = len(sections) - _SHOWN
    return (shown + (f" and {rest} more" if rest > 0 else "")) or "no sections"


def by_heading(sections: list[Any], heading: tuple[str, ...]) -> list[Any]:
    """Sections with exactly this path, else those whose path ends with it."""
    wanted = tuple(" ".join(part.split()) for part in heading)
    exact = [each for each in sections if each.path == wanted]
    return exact or [each for each in sections if wanted and each.path[-len(wanted) :] == wanted]


def require_unchanged(text: str, target: Target) -> None:
    if target.expected_sha is not None and sha(text) != target.expected_sha:
        excerpt = text if len(text) < 200 else text[:200] + "…"
        raise PatchRefused(f"{target} was changed by somebody else since it was read; it is now: {excerpt}")
