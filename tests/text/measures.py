"""What is measured of one converter, on documents everybody gets."""

import json
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from markdown_it import MarkdownIt

from mooring.text import convert, schema
from mooring.text.patch import Operation, Target, outline, patch
from mooring.text.sidecar import Sidecar
from mooring.text.tree import Node, equal, walk

from .corpora import Example
from .page import page
from .peers import PeerFailed, Running
from .test_storage_forms import ALL, canonical_xml, squeezed
from .test_wiki_reading import CASES as WIKI_CASES
from .words import count_words

_WORD = re.compile(r"\w+")
_SPEED_RUNS = 15
_EDITS = 3


@dataclass(frozen=True, slots=True)
class Share:
    """How many of them."""

    kept: int
    total: int

    def __str__(self) -> str:
        return f"{self.kept} of {self.total}"

    @property
    def ratio(self) -> float:
        return self.kept / max(1, self.total)


@dataclass(frozen=True, slots=True)
class Chain:
    """One converter, or one that writes and another that reads."""

    name: str
    writer: Running | None = None
    reader: Running | None = None

    def write(self, value: Any, source: str, target: str, times: int = 1) -> tuple[Any, float]:
        return _run(self.writer, value, source, target, times)

    def read(self, value: Any, source: str, target: str, times: int = 1) -> tuple[Any, float]:
        return _run(self.reader, value, source, target, times)


def Ours() -> Chain:  # noqa: N802  (reads like the peers' names)
    return Chain("mooring")


def _run(running: Running | None, value: Any, source: str, target: str, times: int) -> tuple[Any, float]:
    if running is not None:
        return running.run(value, source, target, times)
    if target == "patched":
        page_, heading, words = value
        return patch(page_, source, [Operation("replace", Target(heading=(heading,)), words)]).result, 0.0
    best, result = float("inf"), None
    for _ in range(times):
        start = time.process_time()
        result = convert(value, source, target).result
        best = min(best, time.process_time() - start)
    return result, best


# ---------------------------------------------------------------- ADF through Markdown


@dataclass(slots=True)
class RoundTrips:
    same: int = 0
    hidden: int = 0
    words: int = 0
    total: int = 0

    def __str__(self) -> str:
        return f"{self.share}, {self.opacity:.1%} hidden"

    @property
    def share(self) -> Share:
        return Share(self.same, self.total)

    @property
    def opacity(self) -> float:
        return self.hidden / max(1, self.words)


def round_trips(chain: Chain, found: list[Node]) -> RoundTrips:
    made = RoundTrips(total=len(found))
    for document in found:
        markdown = ""
        try:
            markdown = chain.write(document, "adf", "markdown")[0] or ""
            back = chain.read(markdown, "markdown", "adf")[0]
            made.same += equal(document, back)
        except (PeerFailed, AttributeError, TypeError, KeyError):
            pass
        counted = count_words(document, markdown)
        made.hidden, made.words = made.hidden + counted.hidden, made.words + counted.total
    return made


@dataclass(frozen=True, slots=True)
class Judged:
    """Kept, lost (valid, with every word) or broken."""

    kept: int
    lost: int
    broken: int

    def __str__(self) -> str:
        return f"{self.kept} / {self.lost} / {self.broken}"

    @property
    def share(self) -> Share:
        return Share(self.kept, self.kept + self.lost + self.broken)


def hard_cases(chain: Chain, cases: list[tuple[str, Node]]) -> Judged:
    """Ids that no author sees count only in the cases about attributes."""
    kept = lost = 0
    for name, document in cases:
        try:
            markdown = chain.write(document, "adf", "markdown")[0]
            back = chain.read(markdown, "markdown", "adf")[0]
            strict = name.startswith("attribute")
            if equal(*(each if strict else _without_ids(each) for each in (document, back))):
                kept += 1
            elif schema.is_valid(back) and _words(document) == _words(back):
                lost += 1
        except (PeerFailed, AttributeError, TypeError, KeyError):
            continue
    return Judged(kept, lost, len(cases) - kept - lost)


def _without_ids(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_ids(each) for each in value]
    if isinstance(value, dict):
        return {key: _without_ids(each) for key, each in value.items() if key != "localId"}
    return value


def _words(document: Node) -> list[str]:
    return _WORD.findall(" ".join(str(item.get("text", "")) for _, item in walk(document)))


def speed(chain: Chain) -> str:
    try:
        markdown, write_seconds = chain.write(page(), "adf", "markdown", _SPEED_RUNS)
        _, read_seconds = chain.read(markdown, "markdown", "adf", _SPEED_RUNS)
    except PeerFailed:
        return "failed"
    return f"{1 / max(write_seconds, 1e-6):.0f}, {1 / max(read_seconds, 1e-6):.0f} /s"


def speed_ratios(peer: Chain, rounds: int = 6) -> tuple[float, float]:
    """How many times the peer's speed, writing and reading; the two take turns, the best run counts."""
    ours = Ours()
    markdown = {each.name: each.write(page(), "adf", "markdown")[0] for each in (ours, peer)}
    seconds: dict[tuple[str, str], float] = {}
    for _ in range(rounds):
        for each in (ours, peer):
            for way, spent in (
                ("write", each.write(page(), "adf", "markdown", _SPEED_RUNS)[1]),
                ("read", each.read(markdown[each.name], "markdown", "adf", _SPEED_RUNS)[1]),
            ):
                best = seconds.get((each.name, way), spent)
                seconds[each.name, way] = min(best, spent)
    write, read = (seconds[peer.name, way] / seconds[ours.name, way] for way in ("write", "read"))
    return write, read


# ---------------------------------------------------------------- Markdown through ADF


@dataclass(slots=True)
class Examples:
    """Valid trees; HTML that stays the same (blanks and tightness aside); trees that stay the same."""

    valid: int = 0
    same: int = 0
    stable: int = 0
    total: int = 0

    def row(self) -> list[str]:
        return [str(Share(each, self.total)) for each in (self.valid, self.same, self.stable)]


def markdown_examples(chain: Chain, examples: list[Example]) -> Examples:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    render: Callable[[str], str] = parser.render
    made = Examples(total=len(examples))
    for example in examples:
        try:
            tree = chain.read(example.markdown, "markdown", "adf")[0]
            made.valid += schema.is_valid(tree)
            markdown = chain.write(tree, "adf", "markdown")[0]
            same = _normal(render(markdown)) in (_normal(render(example.markdown)), _normal(example.html))
            made.same += same
            again = chain.read(markdown, "markdown", "adf")[0]
            made.stable += equal(_without_ids(tree), _without_ids(again))
        except (PeerFailed, AttributeError, TypeError, KeyError):
            continue
    return made


def _normal(html: str) -> str:
    html = re.sub(r"</?p>", "", re.sub(r"\s+", " ", html))
    return re.sub(r"\s*(</?(?:li|ul|ol|blockquote|h\d|pre|hr ?/?)[^>]*>)\s*", r"\1", html).strip()


# ---------------------------------------------------------------- snapshots and patches


DIALECTS = (Sidecar(), Sidecar(dialect="extended"))


def through_snapshot(found: list[Node]) -> Share:
    same = 0
    for document in found:
        for sidecar in DIALECTS:
            shown = sidecar.render(document)
            same += sidecar.restore(shown.markdown, document, shown.snapshot).document == document
    return Share(same, len(DIALECTS) * len(found))


def locality(found: list[Node], seed: int) -> Share:
    """Edit a word anywhere in the Markdown; every other top-level block must be the same object."""
    chance = random.Random(seed)
    kept = tried = 0
    for document in found:
        for sidecar in DIALECTS:
            shown = sidecar.render(document)
            words = list(re.finditer(r"[a-z]{4,}", shown.markdown))
            for word in chance.sample(words, min(_EDITS, len(words))):
                edited = shown.markdown[: word.start()] + "Edited" + shown.markdown[word.end() :]
                after = sidecar.restore(edited, document, shown.snapshot, allow_media_loss=True).document
                left = {id(each) for each in after["content"]}
                tried += 1
                kept += sum(id(each) not in left for each in document["content"]) <= 1
    return Share(kept, tried)


def patches(found: list[Node]) -> Share:
    """Replace the one section in the middle; what comes before and after must be the same bytes."""
    before, after = found[: len(found) // 2], found[len(found) // 2 :]
    kept = tried = 0
    for first, last in zip(before, after, strict=False):
        for target in ("adf", "markdown", "storage", "wiki"):
            source = _three_sections(first, last, target)
            try:
                refs = [each for each in outline(source, target) if each.text == "The middle section"]
                done = patch(
                    source, target, [Operation("replace", Target(ref=refs[0].ref), "changed *text*")]
                ).result
            except (ValueError, IndexError):
                tried += 1
                continue
            tried += 1
            start, end = source.index("The middle section"), source.index("Untouched end")
            kept += done.startswith(source[:start]) and done.endswith(source[end:]) and "changed" in done
    return Share(kept, tried)


def storage_patches(chain: Chain) -> Share:
    """The same on pages made of storage forms, which peers can patch as well."""
    kept = 0
    middle, end = "<h1>The middle section</h1>", "<h1>Untouched end</h1>"
    for form in ALL.values():
        page_ = f"{form}{middle}<p>old</p>{end}{form}"
        try:
            done = chain.write([page_, "The middle section", "changed *text*"], "storage", "patched")[0]
        except (PeerFailed, ValueError, IndexError):
            continue
        kept += done.startswith(form + middle) and done.endswith(end + form) and "changed" in done
    return Share(kept, len(ALL))


def _three_sections(first: Node, last: Node, target: str) -> str:
    def heading(words: str) -> Node:
        return {"type": "heading", "attrs": {"level": 1}, "content": [{"type": "text", "text": words}]}

    middle = [
        heading("The middle section"),
        {"type": "paragraph", "content": [{"type": "text", "text": "old"}]},
    ]
    blocks = [*first["content"], *middle, heading("Untouched end"), *last["content"]]
    document = {"version": 1, "type": "doc", "content": blocks}
    return json.dumps(document) if target == "adf" else convert(document, "adf", target).result


# ---------------------------------------------------------------- storage and wiki


def storage_forms(chain: Chain, *, through: str) -> Judged:
    kept = lost = 0
    for source in ALL.values():
        try:
            middle = chain.write(source, "storage", through)[0]
            back = chain.read(middle, through, "storage")[0]
            if canonical_xml(back) == canonical_xml(squeezed(source)):
                kept += 1
            elif _WORD.findall(re.sub(r"<[^>]+>", " ", source)) == _WORD.findall(
                re.sub(r"<[^>]+>", " ", back)
            ):
                lost += 1
        except (PeerFailed, ValueError, TypeError, SyntaxError):
            continue
    return Judged(kept, lost, len(ALL) - kept - lost)


def wiki_against_oracle(oracle: Running, found: list[Node]) -> Share:
    """Our notations, and what Atlassian's own program writes for the generated documents."""
    sources = [source for source, _ in WIKI_CASES]
    for document in found:
        try:
            sources.append(oracle.run(document, "adf", "wiki")[0])
        except PeerFailed:
            continue
    same = judged = 0
    for source in sources:
        try:
            expected = oracle.run(source, "wiki", "adf")[0]
        except PeerFailed:
            continue
        judged += 1
        same += equal(_comparable(expected), _comparable(convert(source, "wiki", "adf").result))
    return Share(same, judged)


def wiki_through_markdown(chain: Chain, oracle: Running) -> Share:
    same = judged = 0
    for source, _ in WIKI_CASES:
        try:
            expected = oracle.run(source, "wiki", "adf")[0]
        except PeerFailed:
            continue
        judged += 1
        try:
            markdown = chain.write(source, "wiki", "markdown")[0]
            same += equal(_comparable(expected), _comparable(convert(markdown, "markdown", "adf").result))
        except (PeerFailed, ValueError, TypeError):
            continue
    return Share(same, judged)


def _comparable(tree: Node) -> Node:
    """Without ids that are made up on reading; an account id is the same with and without its prefix."""
    written = json.dumps(_without_ids(tree)).replace('"accountid:', '"')
    return json.loads(re.sub(r', "(?:__external|__displayType|__fileName)": [^,}]*', "", written))
