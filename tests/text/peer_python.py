"""Runs one converter from PyPI inside that converter's own environment; jobs come as JSON lines.

    PYTHON peer_python.py NAME

A job is `{"from": …, "to": …, "value": …, "times": n}`, an answer `{"out": …, "seconds": …}`
or `{"error": …}`.
Imports nothing of Mooring: the environment does not have it.
"""

# pyright: reportMissingImports=false

import json
import sys
import time
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

Functions = dict[str, Callable[[Any], Any]]


def marklas() -> Functions:
    import marklas as package

    return {"adf>markdown": package.to_md, "markdown>adf": package.to_adf}


def pyadf() -> Functions:
    import pyadf as package

    return {
        "adf>markdown": lambda value: package.Document(value).to_markdown(),
        "markdown>adf": package.markdown_to_adf,
    }


def md2adf() -> Functions:
    import md2adf as package

    return {"markdown>adf": package.convert}


def md_to_adf() -> Functions:
    import md_to_adf as package

    return {"markdown>adf": package.convert}


def atlas_doc_parser() -> Functions:
    from atlas_doc_parser.api import NodeDoc

    return {"adf>markdown": lambda value: NodeDoc.from_dict(value).to_markdown()}


def mcp_atlassian() -> Functions:
    from mcp_atlassian.confluence.pages import PagesMixin
    from mcp_atlassian.models.jira.adf import adf_to_text, markdown_to_adf
    from mcp_atlassian.preprocessing.confluence import ConfluencePreprocessor
    from mcp_atlassian.preprocessing.jira import JiraPreprocessor

    confluence = ConfluencePreprocessor(base_url="https://example.test")

    def patched(value: list[str]) -> str:
        """The section tool, with a page that is in memory instead of on a server."""
        page, heading, text = value
        wiki = SimpleNamespace(
            get_page_content=lambda *_, **__: SimpleNamespace(content=page, title=""),
            preprocessor=confluence,
            update_page=lambda **given: given["body"],
        )
        return PagesMixin.update_page_section(wiki, "1", heading, text)

    jira = JiraPreprocessor(base_url="https://example.test")
    return {
        "adf>markdown": adf_to_text,
        "markdown>adf": markdown_to_adf,
        "storage>patched": patched,
        "storage>markdown": lambda value: confluence.process_html_content(value)[1],
        "markdown>storage": confluence.markdown_to_confluence_storage,
        "wiki>markdown": jira.jira_to_markdown,
        "markdown>wiki": jira.markdown_to_jira,
    }


def cfxmark() -> Functions:
    import cfxmark as package

    return {
        "storage>markdown": lambda value: package.to_md(value).markdown,
        "markdown>storage": lambda value: package.to_cfx(value).xhtml,
        "wiki>markdown": lambda value: package.from_jira_wiki(value).markdown,
        "markdown>wiki": lambda value: package.to_jira_wiki(value).jira_wiki,
    }


def jira2markdown() -> Functions:
    import jira2markdown as package

    return {"wiki>markdown": package.convert}


def pandoc() -> Functions:
    import pypandoc

    return {
        "wiki>markdown": lambda value: pypandoc.convert_text(value, "gfm", "jira"),
        "markdown>wiki": lambda value: pypandoc.convert_text(value, "jira", "gfm"),
    }


PEERS: dict[str, Callable[[], Functions]] = {
    each.__name__: each
    for each in (
        marklas, pyadf, md2adf, md_to_adf, atlas_doc_parser, mcp_atlassian, cfxmark, jira2markdown, pandoc,
    )
}  # fmt: skip


def main(name: str) -> None:
    answers = sys.stdout
    # Whatever a package prints must not be taken for an answer.
    sys.stdout = sys.stderr
    warnings.simplefilter("ignore")
    functions = PEERS[name]()
    answers.write(json.dumps({"ready": sorted(functions)}) + "\n")
    answers.flush()
    for line in sys.stdin:
        job = json.loads(line)
        answers.write(json.dumps(_answer(functions[f"{job['from']}>{job['to']}"], job)) + "\n")
        answers.flush()


def _answer(function: Callable[[Any], Any], job: dict[str, Any]) -> dict[str, Any]:
    best, out = float("inf"), None
    try:
        for _ in range(job["times"]):
            start = time.process_time()
            out = function(job["value"])
            best = min(best, time.process_time() - start)
        json.dumps(out)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    return {"out": out, "seconds": best}


if __name__ == "__main__":
    main(sys.argv[1])
