"""Attribute lists at the edges of a text."""

import re

from markdown_it.common.utils import MD_TRIM_CHARS

from mooring.text.markdown import attributes

_BEFORE_END = re.compile(r"(?:^|[ \t])\{(?=#|[A-Za-z])")


def split_attributes(source: str) -> tuple[str, attributes.Attributes]:
    """Cut the attribute list off the end of a text, if there is one."""
    start = source.rfind("\n") + 1
    for found in _BEFORE_END.finditer(source, start):
        brace = found.end() - 1
        parsed = attributes.parse(source, brace)
        if parsed and parsed[1] == len(source):
            return source[:brace].rstrip(MD_TRIM_CHARS), parsed[0]
    return source, {}


def lead_attributes(source: str) -> tuple[attributes.Attributes | None, str]:
    """Cut the attribute list off the start of a text."""
    if not source.startswith("{"):
        return None, source
    parsed = attributes.parse(source, 0)
    if not parsed or source[parsed[1] : parsed[1] + 1] not in ("", " ", "\t", "\n"):
        return None, source
    if not parsed[0] and not source[parsed[1] :].startswith(" {"):
        return None, source
    return parsed[0], source[parsed[1] :].lstrip(MD_TRIM_CHARS)
