"""The reference page says what the schema says."""

from __future__ import annotations

from pathlib import Path

from mooring.config.reference import render

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"


def test_the_reference_page_is_what_the_schema_renders() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run `make fix`, which writes the page anew"
