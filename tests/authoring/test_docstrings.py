"""Docstrings in every style say the same thing."""

from __future__ import annotations

import pytest

from mooring.authoring.docstrings import parse

GOOGLE = """Search issues
    with a query.

    Waits until the index is fresh.

    Args:
        project (str): Project key, e.g. "PROJ";
            upper case.
        limit (int, optional): Most results: at least one
        **options: passed on

    Returns:
        list[dict]: The issues, best first.

    Raises:
        ValueError: when the query is empty.
    """
NUMPY = """Search issues with a query.

    Waits until the index is fresh.

    Parameters
    ----------
    project : str
        Project key, e.g. "PROJ";
        upper case.
    limit : int, optional
        Most results: at least one
    **options
        passed on

    Returns
    -------
    list of dict
        The issues, best first.

    Raises
    ------
    ValueError
        when the query is empty.
    """
SPHINX = """
    Search issues with a query.

    Waits until the index is fresh.

    :param str project: Project key, e.g. "PROJ";
        upper case.
    :param limit: Most results: at least one
    :type limit: int
    :param options: passed on
    :returns: The issues, best first.
    :rtype: list
    :raises ValueError: when the query is empty.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_the_three_styles_read_alike(text: str) -> None:
    docs = parse(text)
    assert docs.summary == "Search issues with a query."
    assert docs.parameters == {
        "project": 'Project key, e.g. "PROJ"; upper case.',
        "limit": "Most results: at least one",
        "options": "passed on",
    }
    assert docs.returns == "The issues, best first."
    assert "Waits until the index is fresh." in docs.whole
    assert "upper case" not in docs.whole


def test_names_that_share_a_numpy_entry_share_its_text() -> None:
    assert parse("Add.\n\nParameters\n----------\nx, y : int\n    A number.").parameters == {
        "x": "A number.",
        "y": "A number.",
    }


def test_a_sentence_with_a_colon_is_no_section() -> None:
    docs = parse("Do it.\n\nReturns: nothing to see here.\nNote: not a section either.")
    assert docs.whole.endswith("Note: not a section either.")
    assert docs.returns == ""


@pytest.mark.parametrize("text", [None, "", "   \n  "])
def test_an_absent_docstring_says_nothing(text: str | None) -> None:
    assert (parse(text).summary, parse(text).parameters) == ("", {})


def test_styles_may_be_mixed_and_text_after_a_section_stays() -> None:
    docs = parse("Do it.\n\nArgs:\n    a: One.\n\nAfterwards.\n\n:param b: Two.")
    assert docs.parameters == {"a": "One.", "b": "Two."}
    assert docs.whole == "Do it.\n\nAfterwards."
