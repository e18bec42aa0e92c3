"""Score the Markdown converter on identity, readability, locality, CommonMark and speed.

    python -m tests.text.score [--seeds 150] [--commonmark spec.json] [--peer-python PYTHON]

`--commonmark` is the JSON form of the CommonMark spec's examples. `--peer-python` is an interpreter that has
the package `marklas` installed; its figures are printed beside ours, from the same documents in the same run.
Speed is by processor time, the best of fifteen.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from mooring.text import convert, schema
from mooring.text.sidecar import Sidecar
from mooring.text.tree import Node, equal

from .generate import documents
from .hard_cases import CASES
from .page import page
from .words import count_words

PROFILES = ("core", "typical", "adversarial")
_PEER = """
import json, sys, time
import marklas
for line in sys.stdin:
    job = json.loads(line)
    function = marklas.to_md if job["to"] == "markdown" else marklas.to_adf
    best, out = None, None
    try:
        for _ in range(job["times"]):
            start = time.process_time()
            out = function(job["value"])
            spent = time.process_time() - start
            best = spent if best is None else min(best, spent)
        print(json.dumps({"out": out, "seconds": best}), flush=True)
    except Exception as error:
        print(json.dumps({"error": str(error)}), flush=True)
"""


class Ours:
    name = "mooring"

    def run(self, value: Any, target: str, times: int = 1) -> tuple[Any, float]:
        source = "adf" if target == "markdown" else "markdown"
        best = float("inf")
        result = None
        for _ in range(times):
            start = time.process_time()
            result = convert(value, source, target).result
            best = min(best, time.process_time() - start)
        return result, best


class Peer:
    name = "marklas"

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, "-c", _PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def run(self, value: Any, target: str, times: int = 1) -> tuple[Any, float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"value": value, "to": target, "times": times}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer["out"], answer["seconds"]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=10)


@dataclass(slots=True)
class RoundTrips:
    same: int = 0
    valid: int = 0
    hidden: int = 0
    words: int = 0
    total: int = 0

    def __str__(self) -> str:
        return f"{self.same}/{self.total} same, {self.hidden / max(1, self.words):.1%} of words hidden"


def round_trips(converter: Any, found: list[Node]) -> RoundTrips:
    made = RoundTrips(total=len(found))
    for document in found:
        markdown = ""
        try:
            markdown, _ = converter.run(document, "markdown")
            back, _ = converter.run(markdown, "adf")
            made.same += equal(document, back)
            made.valid += schema.is_valid(back)
        except Exception:
            markdown = markdown or ""
        counted = count_words(document, markdown)
        made.hidden, made.words = made.hidden + counted.hidden, made.words + counted.total
    return made


def common_mark(converter: Any, examples: list[dict[str, Any]]) -> str:
    """Valid trees, HTML that stays the same (blanks and tightness aside), trees that stay the same."""
    render: Callable[[str], str] = MarkdownIt("commonmark").render
    valid = same = stable = 0
    for example in examples:
        try:
            tree, _ = converter.run(example["markdown"], "adf")
            valid += schema.is_valid(tree)
            markdown, _ = converter.run(tree, "markdown")
            same += _normal(render(example["markdown"])) == _normal(render(markdown))
            stable += equal(tree, converter.run(markdown, "adf")[0])
        except Exception:
            continue
    return f"valid {valid}, same HTML {same}, stable {stable} of {len(examples)}"


def _normal(html: str) -> str:
    html = re.sub(r"</?p>", "", re.sub(r"\s+", " ", html))
    return re.sub(r"\s*(</?(?:li|ul|ol|blockquote|h\d|pre|hr ?/?)[^>]*>)\s*", r"\1", html).strip()


def locality(found: list[Node]) -> str:
    """Edit one word of the plain Markdown; every other top-level block must be the same object."""
    kept = tried = 0
    sidecar = Sidecar()
    for document in found:
        rendering = sidecar.render(document)
        word = re.search(r"(?m)^[a-z]{4,}(?= )", rendering.markdown)
        if word is None:
            continue
        tried += 1
        edited = rendering.markdown[: word.start()] + "Edited" + rendering.markdown[word.end() :]
        after = sidecar.restore(edited, document, rendering.snapshot, allow_media_loss=True).document
        pairs = list(zip(document["content"], after["content"], strict=False))
        kept += (
            len(after["content"]) == len(document["content"])
            and sum(old is not new for old, new in pairs) <= 1
        )
    return f"{kept}/{tried}"


def speed(converter: Any) -> tuple[float, float]:
    """Documents per second: writing and reading."""
    document = page()
    markdown, write_seconds = converter.run(document, "markdown", 15)
    _, read_seconds = converter.run(markdown, "adf", 15)
    return 1 / write_seconds, 1 / read_seconds


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.text.score", description=__doc__)
    parser.add_argument("--seeds", type=int, default=150)
    parser.add_argument("--start", type=int, default=0, help="first seed")
    parser.add_argument("--commonmark", type=Path)
    parser.add_argument("--peer-python")
    parsed = parser.parse_args(arguments)
    converters: list[Any] = [Ours()] + ([Peer(parsed.peer_python)] if parsed.peer_python else [])
    rows: list[tuple[str, list[str]]] = []
    sets = {profile: documents(parsed.seeds, profile, parsed.start) for profile in PROFILES}
    for profile, found in sets.items():
        rows.append(
            (f"ADF → Markdown → ADF, {profile}", [str(round_trips(each, found)) for each in converters])
        )
    hard = [document for _, document in CASES]
    rows.append(("hard cases", [str(round_trips(each, hard)) for each in converters]))
    rows.append(
        (
            "one-word edit, other blocks identical",
            [locality(sets["typical"])] + ["not offered"] * (len(converters) - 1),
        )
    )
    if parsed.commonmark:
        examples = json.loads(parsed.commonmark.read_text("utf-8"))
        rows.append(("CommonMark examples", [common_mark(each, examples) for each in converters]))
    figures = [speed(each) for each in converters]
    rows.append(
        ("42 KB page, documents/s (write, read)", [f"{write:.0f}, {read:.0f}" for write, read in figures])
    )
    _print([each.name for each in converters], rows)
    for each in converters[1:]:
        each.close()
    return 0


def _print(names: list[str], rows: list[tuple[str, list[str]]]) -> None:
    sys.stdout.write(f"| what | {' | '.join(names)} |\n| --- |{' --- |' * len(names)}\n")
    for what, cells in rows:
        sys.stdout.write(f"| {what} | {' | '.join(cells)} |\n")


if __name__ == "__main__":
    sys.exit(main())
