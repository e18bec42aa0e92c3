"""Score Mooring and its peers on the same documents in the same run, and write the table of the docs.

    python -m tests.text.score [--seeds 60] [--start N] [--only NAME ...] [--write-docs]

Every run makes new documents, unless `--start` names the first seed of an earlier one. Peers are installed
under `.venvs/text-peers` when they are missing; those that cannot be are named. Speed is by processor time,
the best of several runs on one page.
"""

import argparse
import random
import sys
from datetime import UTC, datetime
from pathlib import Path

from .corpora import Example, common_mark, fixtures, gfm_extensions
from .generate import documents
from .goals import Goal, Table, best, goal_table
from .hard_cases import CASES
from .holdable import is_holdable
from .measures import (
    Chain,
    Examples,
    Ours,
    hard_cases,
    locality,
    markdown_examples,
    patches,
    round_trips,
    speed,
    speed_ratios,
    storage_forms,
    storage_patches,
    through_snapshot,
    wiki_against_oracle,
    wiki_through_markdown,
)
from .peers import NOT_TRIED, PEERS, ROOT, NotInstalled, Running, install

PAGE = ROOT / "docs/text-score.md"
# Peers that only read or only write are paired as the study did.
PAIRS = (
    ("marklas", "marklas"),
    ("pyadf", "pyadf"),
    ("mcp-atlassian", "mcp-atlassian"),
    ("mdast-util-from-adf", "atlaskit-markdown"),
    ("mdast-util-from-adf", "marklassian"),
    ("adf-to-markdown", "marklassian"),
    ("adf-to-md", "md-to-adf (npm)"),
    ("atlas-doc-parser", "marklassian"),
    ("atlas-doc-parser", "md2adf"),
    ("adf-to-markdown", "md-to-adf (PyPI)"),
)
PROFILES = ("core", "typical", "adversarial")
LARGEST_SEED = 10**9


class Scoring:
    """One run: the tables in the order of the page, and the goals they add up to."""

    def __init__(self, running: dict[str, Running], missing: dict[str, str], seeds: int, start: int) -> None:
        self.running = running
        self.missing = missing
        self.start = start
        self.sets = [documents(seeds, profile, start) for profile in PROFILES]
        self.tables: list[Table] = []
        self.goals: list[Goal] = []

    def run(self) -> list[Table]:
        for step in (
            self._round_trips,
            self._common_mark,
            self._gfm,
            self._snapshots,
            self._storage,
            self._wiki,
            self._patches,
            self._speed,
        ):
            _say(step.__name__.strip("_").replace("_", " "))
            try:
                step()
            except NotInstalled as error:
                self.missing[step.__name__.strip("_").replace("_", " ")] = str(error)
        return [goal_table(self.goals), *self.tables]

    def _chains(self) -> list[Chain]:
        chains = [Ours()]
        for writer, reader in PAIRS:
            if writer in self.running and reader in self.running:
                name = writer if writer == reader else f"{writer} → {reader}"
                chains.append(Chain(name, self.running[writer], self.running[reader]))
        return chains

    def _offering(self, *conversions: str) -> list[Chain]:
        able = [each for each in self.running.values() if set(conversions) <= each.offers]
        return [Ours(), *(Chain(each.name, each, each) for each in able)]

    def _round_trips(self) -> None:
        hard = {each.name: hard_cases(each, CASES) for each in self._chains()}
        trips = [{each.name: round_trips(each, found) for each in self._chains()} for found in self.sets]
        own = list(fixtures().values())
        speeds = {each.name: speed(each) for each in self._chains()}
        head = ["", "hard cases: kept / lost / broken", "simple", "typical", "every node type", "42 KB page"]
        rows = [
            [name, str(hard[name]), *(str(each[name]) for each in trips), speeds[name]] for name in speeds
        ]
        self.tables.append(("ADF → Markdown → ADF", head, rows))
        for label, limit, measured in zip(
            ("simple documents", "every node type, ordinary words", "every node type, hostile words"),
            (0.02, 0.10, 0.10),
            trips,
            strict=True,
        ):
            ours = measured["mooring"]
            self.goals.append(
                Goal(
                    f"ADF → extended Markdown → ADF: {label}",
                    f"100 %, ≤ {limit:.0%} of the words hidden",
                    str(ours),
                    ours.share.ratio == 1 and ours.opacity <= limit,
                    best(measured, lambda each: each.share.ratio - each.opacity / 1000),
                )
            )
        ours = round_trips(Ours(), own)
        self.goals.append(
            Goal(
                "the same with Atlassian's own fixture (npm)", "100 %", str(ours), ours.share.ratio == 1,
                "not measured",
            )
        )  # fmt: skip
        share = hard["mooring"].share
        peer = best(hard, lambda each: each.share.ratio)
        self.goals.append(
            Goal("hard cases kept / lost / broken", "≥ 98 %", str(hard["mooring"]), share.ratio >= 0.98, peer)
        )

    def _common_mark(self) -> None:
        examples = common_mark()
        able = [each for each in examples if is_holdable(each.markdown)]
        every = self._examples("CommonMark 0.31.2 → ADF → Markdown, all examples", examples)
        held = self._examples("CommonMark 0.31.2 → ADF → Markdown, the examples ADF can hold", able)
        valid, same, stable = every["mooring"].valid, held["mooring"].same, held["mooring"].stable
        self.goals += [
            Goal(
                "CommonMark 0.31.2 → ADF: valid", "652 of 652", f"{valid} of {len(examples)}",
                valid == len(examples), _best_count({name: each.valid for name, each in every.items()}),
            ),
            Goal(
                "→ Markdown: same HTML, of those ADF can hold", "≥ 98.3 % (525 of 534 in the study)",
                f"{same} of {len(able)} ({same / len(able):.1%}); {every['mooring'].same} of all",
                same / len(able) >= 525 / 534, _best_count({name: each.same for name, each in held.items()}),
            ),
            Goal(
                "→ ADF again: the same tree", "100 %",
                f"{stable} of {len(able)}; {every['mooring'].stable} of all",
                stable == len(able), _best_count({name: each.stable for name, each in held.items()}),
            ),
        ]  # fmt: skip

    def _gfm(self) -> None:
        self._examples("GFM's extensions, likewise", gfm_extensions())

    def _examples(self, title: str, examples: list[Example]) -> dict[str, Examples]:
        measured = {each.name: markdown_examples(each, examples) for each in self._chains()}
        rows = [[name, *each.row()] for name, each in measured.items()]
        self.tables.append((title, ["", "valid ADF", "same HTML", "same tree again"], rows))
        return measured

    def _snapshots(self) -> None:
        found = [document for each in self.sets for document in each]
        unedited = through_snapshot(found)
        edited = locality(found, self.start)
        self.goals[:0] = [
            Goal("ADF → Markdown → ADF with the snapshot, unedited: identical", "100 %", str(unedited),
                 unedited.ratio == 1),
            Goal("one word edited anywhere: every other top-level block identical", "100 %", str(edited),
                 edited.ratio == 1),
        ]  # fmt: skip

    def _storage(self) -> None:
        chains = self._offering("storage>markdown", "markdown>storage")
        measured = {each.name: storage_forms(each, through="markdown") for each in chains}
        rows = [[name, str(each)] for name, each in measured.items()]
        title = "Storage format → Markdown → storage format"
        self.tables.append((title, ["", "kept / lost / broken"], rows))
        ours, through_adf = measured["mooring"], storage_forms(Ours(), through="adf")
        peer = best(measured, lambda each: each.share.ratio)
        self.goals += [
            Goal("storage → Markdown → storage", "≥ 97 %", str(ours), ours.share.ratio >= 0.97, peer),
            Goal("storage → ADF → storage", "100 %", str(through_adf), through_adf.share.ratio == 1,
                 "not measured: see below"),
        ]  # fmt: skip

    def _wiki(self) -> None:
        if (oracle := self.running.get("atlaskit-wiki")) is None:
            raise NotInstalled("Atlassian's own parser is missing")
        measured = {
            each.name: wiki_through_markdown(each, oracle) for each in self._offering("wiki>markdown")
        }
        title = "Wiki markup → Markdown → ADF, as Atlassian's own parser reads it"
        self.tables.append((title, ["", "same tree"], [[name, str(each)] for name, each in measured.items()]))
        ours = wiki_against_oracle(oracle, self.sets[1])
        peer = best(measured, lambda each: each.ratio)
        self.goals.append(
            Goal(
                "wiki → ADF as Atlassian's own parser reads it", "≥ 90 %", str(ours), ours.ratio >= 0.9, peer
            )
        )

    def _patches(self) -> None:
        measured = {each.name: storage_patches(each) for each in self._offering("storage>patched")}
        ours, others = measured["mooring"], patches(self.sets[1])
        peer = best(measured, lambda each: each.ratio)
        self.goals += [
            Goal("patch of a storage page: bytes outside the target untouched", "100 %", str(ours),
                 ours.ratio == 1, peer),
            Goal("the same of generated documents in all four formats", "100 %", str(others),
                 others.ratio == 1),
        ]  # fmt: skip

    def _speed(self) -> None:
        if "marklas" not in self.running:
            raise NotInstalled("marklas is missing")
        peer = Chain("marklas", self.running["marklas"], self.running["marklas"])
        write, read = speed_ratios(peer)
        self.goals.append(
            Goal("speed on a 42 KB page, to and from Markdown", "≥ 1 × marklas both ways",
                 f"{write:.1f} ×, {read:.1f} ×", min(write, read) >= 1, "1 × (marklas)")
        )  # fmt: skip


def _best_count(counts: dict[str, int]) -> str:
    return best(counts, float)


def start_peers(only: list[str]) -> tuple[dict[str, Running], dict[str, str]]:
    running: dict[str, Running] = {}
    missing: dict[str, str] = {}
    for peer in PEERS:
        if only and peer.name not in only:
            continue
        try:
            install(peer)
            running[peer.name] = Running(peer)
        except NotInstalled as error:
            missing[peer.name] = str(error)
            _say(f"could not be installed: {peer.name}: {error}")
    return running, missing


def render(tables: list[Table], missing: dict[str, str], seeds: int, start: int) -> str:
    day = datetime.now(UTC).date().isoformat()
    lines = [
        "# How the text converters compare",
        "",
        f"Written by `make text-score` on {day}, first seed {start};",
        f"`python -m tests.text.score --seeds {seeds} --start {start}` measures the same documents again.",
        "Everything is from one run on one machine. Hard cases, storage forms and most wiki notations are",
        "this project's own; the generated documents, the specifications and the fixture are not.",
        "*Kept*: the same canonical tree. *Lost*: valid, every word there, but structure or attributes",
        "gone. *Broken*: words changed or gone, invalid output, an error. *Hidden*",
        "words are those a reader of the Markdown cannot see (in attributes, comments, JSON, or nowhere).",
        "Speed is documents per second of processor time (to Markdown, from Markdown), each reading its own",
        "Markdown; compare within the table, not between runs.",
        "The study that set the goal for *same HTML* counted 534 CommonMark examples that ADF can hold,",
        "without a list of them. Here those count that have no raw HTML, no heading, rule or quote in a list",
        "or quote, no code in emphasis, no mark twice, no empty link and no image with a title.",
        "",
    ]
    for title, head, rows in tables:
        lines += [f"## {title}", "", f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
        lines += [f"| {' | '.join(row)} |" for row in rows]
        lines.append("")
    absent = {**missing, **NOT_TRIED}
    lines += ["## Not measured", "", *(f"- {name}: {reason}" for name, reason in absent.items()), ""]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.text.score", description=__doc__)
    parser.add_argument("--seeds", type=int, default=60, help="documents per profile")
    parser.add_argument("--start", type=int, help="first seed; a new one every time if not given")
    parser.add_argument("--only", nargs="*", default=[], help="only these peers")
    parser.add_argument("--write-docs", action="store_true", help=f"write {PAGE.name} instead of printing")
    parsed = parser.parse_args(arguments)
    start = random.randrange(LARGEST_SEED) if parsed.start is None else parsed.start
    _say(f"first seed: {start}")
    running, missing = start_peers(parsed.only)
    scoring = Scoring(running, missing, parsed.seeds, start)
    try:
        tables = scoring.run()
    finally:
        for each in running.values():
            each.close()
    page = render(tables, missing, parsed.seeds, start)
    if parsed.write_docs:
        Path(PAGE).write_text(page, "utf-8")
        _say(f"wrote {PAGE.relative_to(ROOT)}")
    else:
        sys.stdout.write(page)
    for goal in scoring.goals:
        if not goal.reached:
            _say(f"goal not reached: {goal.what}: {goal.ours}")
    return 0 if all(goal.reached for goal in scoring.goals) else 1


def _say(what: str) -> None:
    print(what, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
