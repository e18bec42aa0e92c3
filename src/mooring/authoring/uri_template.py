"""URI templates (RFC 6570) read backwards: which values make a template this URI."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, unquote

_EXPRESSION: Final = re.compile(r"\{([+#/?&.;]?)([A-Za-z_][\w.]*\*?(?:,[A-Za-z_][\w.]*\*?)*)\}")
_MAX_URI_CHARACTERS: Final = 8_192


class BadTemplate(ValueError):
    """A template that cannot be read backwards."""


class UriTemplate:
    """`{name}` is one segment, `{+name}` or `{name*}` the rest of a path, `{?a,b}` a query whose parts may be
    missing."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.names: tuple[str, ...] = ()
        self.optional: frozenset[str] = frozenset()
        """Names that stand in the query, and may be left out of a URI."""
        self._pattern = re.compile(self._compile(text))

    def match(self, uri: str) -> dict[str, str] | None:
        """The values, percent-decoded; None when the URI is none of this template's."""
        if len(uri) > _MAX_URI_CHARACTERS:
            return None
        path, _, query = uri.partition("?") if self.optional else (uri, "", "")
        found = self._pattern.fullmatch(path)
        if found is None:
            return None
        values = {name: unquote(value) for name, value in found.groupdict().items()}
        given = parse_qsl(query, keep_blank_values=True)
        return values | {name: value for name, value in given if name in self.optional}

    def _compile(self, text: str) -> str:
        pattern = ""
        position = 0
        names: list[str] = []
        optional: list[str] = []
        for expression in _EXPRESSION.finditer(text):
            pattern += re.escape(text[position : expression.start()])
            position = expression.end()
            operator, variables = expression[1], expression[2].split(",")
            if operator == "?":
                if position != len(text):
                    raise BadTemplate(f"`{text}`: a query must come last")
                optional += [variable.rstrip("*") for variable in variables]
                continue
            if operator not in ("", "+", "/") or len(variables) > 1:
                raise BadTemplate(
                    f"`{text}`: `{expression[0]}` cannot be read backwards; use one `{{name}}` each"
                )
            name = variables[0]
            rest = operator == "+" or name.endswith("*")
            pattern += "/" * (operator == "/")
            pattern += f"(?P<{name.rstrip('*')}>{'.+' if rest else '[^/?#]+'})"
            names.append(name.rstrip("*"))
        if "{" in (tail := text[position:]) or "}" in re.sub(_EXPRESSION, "", text):
            raise BadTemplate(f"`{text}`: the braces do not match, or hold something else than a name")
        if len(set(names + optional)) != len(names + optional):
            raise BadTemplate(f"`{text}`: a name stands in it twice")
        self.names = tuple(names + optional)
        self.optional = frozenset(optional)
        return pattern + re.escape(tail)
