"""Score Mooring and its peers on the same documents in the same run, and write the table of the docs.

    python -m tests.text.score [--seeds 150] [--start N] [--only NAME ...] [--write-docs]

Peers are installed under `.venvs/text-peers` when they are missing; those that cannot be are named. Speed is
by processor time, the best of several runs on one page. Other seeds (`--start`) give other documents.
"""

import argparse
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from .corpora import common_mark, fixtures, gfm_extensions
from .generate import documents
from .hard_cases import CASES
from .measures import (
    Chain,
    Ours,
    hard_cases,
    locality,
    markdown_examples,
    patches,
    round_trips,
    speed,
    storage_forms,
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
Table = tuple[str, list[str], list[list[str]]]


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
    return running, missing


def markdown_tables(chains: list[Chain], seeds: int, start: int) -> list[Table]:
    trips = [
        [
            "",
            "hard cases: kept / lost / broken",
            "simple",
            "typical",
            "every node type",
            "42 KB page: to, from",
        ]
    ]
    sets = [documents(seeds, profile, start) for profile in ("core", "typical", "adversarial")]
    rows: list[list[str]] = []
    for chain in chains:
        _say(f"round trips of {chain.name}")
        rows.append(
            [
                chain.name,
                hard_cases(chain, CASES),
                *(str(round_trips(chain, found)) for found in sets),
                speed(chain),
            ]
        )
    return [("ADF → Markdown → ADF", trips[0], rows)]


def example_tables(chains: list[Chain], missing: dict[str, str]) -> list[Table]:
    made: list[Table] = []
    for title, load in (
        ("CommonMark 0.31.2 → ADF → Markdown", common_mark),
        ("GFM's extensions, likewise", gfm_extensions),
    ):
        try:
            examples = load()
        except NotInstalled as error:
            missing[title] = str(error)
            continue
        _say(title)
        rows = [[chain.name, *markdown_examples(chain, examples)] for chain in chains]
        made.append(
            (f"{title} ({len(examples)} examples)", ["", "valid ADF", "same HTML", "same tree again"], rows)
        )
    return made


def goal_table(running: dict[str, Running], seeds: int, start: int, missing: dict[str, str]) -> Table:
    """What only Mooring offers, or what is measured against Atlassian's own programs."""
    rows: list[list[str]] = []

    def add(what: str, goal: str, measure: Callable[[], str]) -> None:
        _say(what)
        try:
            rows.append([what, goal, measure()])
        except NotInstalled as error:
            missing[what] = str(error)

    found = documents(seeds, "typical", start)
    add("ADF → plain Markdown → ADF with the snapshot, unedited", "100 %", lambda: through_snapshot(found))
    add("one word edited: every other top-level block identical", "100 %", lambda: locality(found))
    add(
        "Atlassian's own fixtures through extended Markdown",
        "100 %",
        lambda: str(round_trips(Ours(), list(fixtures().values()))),
    )
    add("storage → Markdown → storage", "≥ 97 %", lambda: storage_forms(Ours(), through="markdown"))
    add("storage → ADF → storage", "100 %", lambda: storage_forms(Ours(), through="adf"))
    add("patch: bytes outside the target untouched (four formats)", "100 %", lambda: patches(found))
    if "atlaskit-wiki" in running:
        oracle = running["atlaskit-wiki"]
        add(
            "wiki → ADF as Atlassian's own parser reads it",
            "≥ 90 %",
            lambda: wiki_against_oracle(oracle, found),
        )
    return "Goals beyond a Markdown round trip", ["", "goal", "measured"], rows


def storage_table(running: dict[str, Running]) -> Table:
    chains: list[Chain] = [Ours()]
    chains += [
        Chain(each.name, each, each)
        for each in running.values()
        if {"storage>markdown", "markdown>storage"} <= each.offers
    ]
    rows = [[chain.name, storage_forms(chain, through="markdown")] for chain in chains]
    return "Storage format → Markdown → storage format", ["", "kept / lost / broken"], rows


def wiki_table(running: dict[str, Running]) -> Table | None:
    """Wiki markup through a converter's Markdown, which Mooring reads: the same as Atlassian's own tree?"""
    oracle = running.get("atlaskit-wiki")
    if oracle is None:
        return None
    chains: list[Chain] = [Ours()]
    chains += [Chain(each.name, each) for each in running.values() if "wiki>markdown" in each.offers]
    rows: list[list[str]] = []
    for chain in chains:
        _say(f"wiki markup of {chain.name}")
        rows.append([chain.name, wiki_through_markdown(chain, oracle)])
    return "Wiki markup → Markdown → ADF, as Atlassian's own parser reads it", ["", "same tree"], rows


def render(tables: list[Table], missing: dict[str, str], seeds: int, start: int) -> str:
    day = datetime.now(UTC).date().isoformat()
    command = f"python -m tests.text.score --seeds {seeds} --start {start} --write-docs"
    lines = [
        "# How the text converters compare",
        "",
        f"Written by `{command}` on {day} (`make text-score`",
        "with its own seeds). Hard cases, storage forms and most wiki notations are this project's own.",
        "Generated documents, specifications and fixtures are not. Everything was measured in",
        "one run, one machine. *Kept*: the same canonical tree. *Lost*: valid, every word there, but",
        "structure or attributes gone. *Broken*: words changed or gone, invalid output, an error. *Hidden*",
        "words are those a reader of the Markdown cannot see (in attributes, comments, JSON, or nowhere).",
        "Speed is documents per second of processor time, each reading its own Markdown; compare within the",
        "table, not between runs.",
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
    parser.add_argument("--seeds", type=int, default=150)
    parser.add_argument("--start", type=int, default=0, help="first seed")
    parser.add_argument("--only", nargs="*", default=[], help="only these peers")
    parser.add_argument("--write-docs", action="store_true", help=f"write {PAGE.name} instead of printing")
    parsed = parser.parse_args(arguments)
    running, missing = start_peers(parsed.only)
    for name, reason in missing.items():
        _say(f"could not be installed: {name}: {reason}")
    chains: list[Chain] = [Ours()]
    for writer, reader in PAIRS:
        if writer in running and reader in running:
            name = writer if writer == reader else f"{writer} → {reader}"
            chains.append(Chain(name, running[writer], running[reader]))
    try:
        tables = markdown_tables(chains, parsed.seeds, parsed.start)
        tables += example_tables(chains, missing)
        tables.append(storage_table(running))
        if wiki := wiki_table(running):
            tables.append(wiki)
        tables.append(goal_table(running, parsed.seeds, parsed.start, missing))
    finally:
        for each in running.values():
            each.close()
    page = render(tables, missing, parsed.seeds, parsed.start)
    if parsed.write_docs:
        Path(PAGE).write_text(page, "utf-8")
        _say(f"wrote {PAGE.relative_to(ROOT)}")
    else:
        sys.stdout.write(page)
    return 0


def _say(what: str) -> None:
    print(what, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
