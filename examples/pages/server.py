"""Wiki pages for a model: it reads Markdown, edits one section or all of it, and nothing else is lost.

    python examples/pages/server.py [FOLDER]

Pages are files in the folder: `name.adf.json` in Atlassian Document Format, `name.storage.xml` in Confluence
storage format. Panels, layouts, macros and ids are in the file and stay there. A folder that does not exist
yet is made, with the pages next to this file in it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mooring.authoring import Contents, Embedded, Link, NotFound, Server, ToolError
from mooring.text import TextError, read, write
from mooring.text.patch import Operation, Target, outline, patch
from mooring.text.sidecar import Sidecar, Snapshot
from mooring.text.tree import Node

FORMATS = {".adf.json": "adf", ".storage.xml": "storage"}
MAX_HITS = 20
server = Server(
    "pages",
    version="1.0",
    instructions="Change pages with `patch_section`; use `write_page` only when most of a page changes.",
)


@dataclass(frozen=True)
class Page:
    name: str
    file: Path
    source_format: str

    @property
    def source(self) -> str:
        return self.file.read_text("utf-8")

    @property
    def tree(self) -> Node:
        return read(self.source, self.source_format)

    def save(self, source: str) -> None:
        """All of it or nothing: a crash leaves the old page."""
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=self.file.parent, delete=False) as new:
            new.write(source)
            new.flush()
            os.fsync(new.fileno())
        Path(new.name).replace(self.file)
        server.resource_updated(f"page:///{self.name}")


SAMPLES = Path(__file__).parent / "content"


class Folder:
    path = SAMPLES

    def pages(self) -> list[Page]:
        return [
            Page(file.name.removesuffix(ending), file, source_format)
            for ending, source_format in FORMATS.items()
            for file in sorted(self.path.glob(f"*{ending}"))
        ]

    def page(self, name: str) -> Page:
        found = {page.name: page for page in self.pages()}
        if name not in found:
            raise ToolError(f"there is no page `{name}`; there are: {', '.join(found) or 'none'}")
        return found[name]


folder = Folder()
sidecar = Sidecar()


@dataclass
class Section:
    """Attributes:
    ref: Names the section in `patch_section`
    path: Its headings, outermost first
    sha: Changes when the section changes
    """

    ref: str
    path: list[str]
    sha: str


@dataclass
class Reading:
    """Attributes:
    markdown: The page, without what Markdown cannot say
    snapshot: Give it back to `write_page`
    sections: What `patch_section` can change
    """

    markdown: str
    snapshot: dict[str, Any]
    sections: list[Section]


@server.tool(read_only=True)
def read_page(name: str) -> Reading:
    """Read a page as Markdown, with its sections.

    Args:
        name: The page
    """
    page = folder.page(name)
    shown = sidecar.render(page.tree)
    sections = [
        Section(each.ref, list(each.path), each.sha) for each in outline(page.source, page.source_format)
    ]
    return Reading(shown.markdown, shown.snapshot.as_json(), sections)


@server.tool(read_only=True)
def search_pages(words: str) -> list[str | Embedded]:
    """Search all pages: a summary, then each section that has the words, with the address to read it at.

    Args:
        words: What to look for, in any case
    """
    hits: list[Embedded] = []
    names: list[str] = []
    for page in folder.pages():
        markdown = sidecar.render(page.tree).markdown
        for number, part in enumerate(_parts(markdown)):
            if words.lower() in part.lower():
                uri = f"page:///{page.name}/{number}"
                hits.append(Embedded(Contents(uri, part, "text/markdown")))
                names.append(page.name)
    shown = hits[:MAX_HITS]
    summary = f"{len(hits)} sections on {len(set(names))} pages have `{words}`"
    return [summary + (f"; the first {MAX_HITS} follow" if len(hits) > MAX_HITS else ""), *shown]


@server.tool(destructive=False)
def patch_section(name: str, heading: list[str], markdown: str, expected_sha: str | None = None) -> str:
    """Replace the text below one heading; subsections and everything else on the page stay as they are.

    Args:
        name: The page
        heading: The headings that lead to the section, or the last of them
        markdown: The new text, without the heading
        expected_sha: From `read_page`; refuses when somebody changed the section since
    """
    page = folder.page(name)
    target = Target(heading=tuple(heading), expected_sha=expected_sha)
    try:
        done = patch(page.source, page.source_format, [Operation("replace", target, markdown)])
    except TextError as error:
        raise ToolError(str(error)) from error
    page.save(done.result)
    return done.diff


@server.tool(destructive=True)
def write_page(name: str, markdown: str, snapshot: dict[str, Any]) -> list[str | Link]:
    """Write a whole page back after editing the Markdown of `read_page`.

    What was not edited keeps its panels, layouts, macros and ids. Dropping an attachment is refused.

    Args:
        name: The page
        markdown: The edited Markdown, complete
        snapshot: As `read_page` gave it
    """
    page = folder.page(name)
    try:
        restored = sidecar.restore(markdown, page.tree, Snapshot(**snapshot))
        changed = write(restored.document, page.source_format)
    except (TextError, TypeError) as error:
        raise ToolError(str(error)) from error
    page.save(changed)
    notes = [
        f"{entry.kind} at {entry.path or 'the page'}: {entry.detail}" for entry in restored.report.entries
    ]
    return ["written" if not notes else "written; " + "; ".join(notes), _link(page)]


@server.resource("page:///")
def all_pages() -> list[str]:
    """The names of all pages."""
    return [page.name for page in folder.pages()]


@server.resource_template("page:///{name}", name="page", mime_type="text/markdown")
def one_page(name: str) -> str:
    """One page as Markdown that reads back to the same page."""
    return write(_found(name).tree, "markdown")


@server.resource_template("page:///{name}/{number}", name="part", mime_type="text/markdown")
def one_part(name: str, number: str) -> str:
    """One part of a page, as `search_pages` finds it."""
    parts = _parts(sidecar.render(_found(name).tree).markdown)
    if not number.isdecimal() or int(number) >= len(parts):
        raise NotFound(f"`{name}` has no part `{number}`")
    return parts[int(number)]


def offer_pages() -> None:
    """Every page that is there at the start is a resource of its own; the template finds later ones."""
    for page in folder.pages():
        offer = server.resource(f"page:///{page.name}", name=page.name, mime_type="text/markdown")
        offer(partial(one_page, page.name))


@server.completion(one_page, "name")
def page_names(value: str) -> list[str]:
    return [page.name for page in folder.pages() if page.name.startswith(value)]


def _found(name: str) -> Page:
    for page in folder.pages():
        if page.name == name:
            return page
    raise NotFound(f"there is no page `{name}`")


def _link(page: Page) -> Link:
    return Link(f"page:///{page.name}", page.name, mime_type="text/markdown")


def _parts(markdown: str) -> list[str]:
    """The text cut before every heading that does not stand in code."""
    parts: list[list[str]] = [[]]
    fence = ""
    for line in markdown.splitlines():
        bare = line.lstrip()
        if bare.startswith(("```", "~~~")) and (not fence or bare.startswith(fence)):
            fence = "" if fence else bare[:3]
        if not fence and line.startswith("#"):
            parts.append([])
        parts[-1].append(line)
    return [text for part in parts if (text := "\n".join(part).strip())]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=folder.path, help="where the pages are")
    folder.path = parser.parse_args().folder
    if not folder.path.exists():
        shutil.copytree(SAMPLES, folder.path)
    offer_pages()
    server.run()
