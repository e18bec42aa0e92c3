"""ADF -> extended Markdown -> ADF gives the same tree."""

import pytest

from mooring.text import convert, schema
from mooring.text.tree import Node, canonical, doc, node, paragraph, text

from .generate import Generator
from .hard_cases import CASES
from .words import count_words

SEEDS = range(60)


def round_trip(document: Node) -> tuple[str, Node]:
    markdown = convert(document, "adf", "markdown").result
    return markdown, convert(markdown, "markdown", "adf").result


@pytest.mark.parametrize(("name", "document"), CASES, ids=[name for name, _ in CASES])
def test_a_hard_case_survives_the_round_trip(name: str, document: Node) -> None:
    markdown, back = round_trip(document)
    assert canonical(back) == canonical(document), markdown


@pytest.mark.parametrize("profile", ["core", "typical", "adversarial"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_document_of_the_schema_survives_the_round_trip(profile: str, seed: int) -> None:
    document = Generator(seed, profile).document()
    markdown, back = round_trip(document)
    assert canonical(back) == canonical(document), markdown
    assert schema.is_valid(back) or not schema.is_valid(document)


@pytest.mark.parametrize(("profile", "limit"), [("core", 0.02), ("typical", 0.10), ("adversarial", 0.10)])
def test_the_words_of_random_documents_stay_readable(profile: str, limit: float) -> None:
    hidden = total = 0
    for seed in SEEDS:
        document = Generator(seed, profile).document()
        found = count_words(document, convert(document, "adf", "markdown").result)
        hidden, total = hidden + found.hidden, total + found.total
    assert hidden <= limit * total, f"{hidden} of {total} words hidden"


@pytest.mark.parametrize("code", ["+ ```", "> ```", "- ~~~", ":::", "    ```", "> :::\n1. ```"])
@pytest.mark.parametrize("quoted", [False, True])
def test_code_never_ends_the_container_it_stands_in(code: str, quoted: bool) -> None:
    block = node("codeBlock", [text(code)])
    inside = node("blockquote", [block]) if quoted else block
    document = doc(node("expand", [inside, paragraph(text("after"))], title="t"), paragraph(text("end")))
    markdown, back = round_trip(document)
    assert canonical(back) == canonical(document), markdown


def test_writing_is_deterministic() -> None:
    document = Generator(1, "adversarial").document()
    assert convert(document, "adf", "markdown").result == convert(document, "adf", "markdown").result
