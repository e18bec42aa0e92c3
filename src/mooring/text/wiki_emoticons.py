"""The emoticons of wiki markup and the ADF emoji each of them stands for."""

import re
from typing import Any, Final

EMOTICON_START: Final = frozenset(":(;")
_LONGEST: Final = 9

_UNICODE: Final = {
    "1f642": ("slight_smile", (":)", ":-)")),
    "1f61e": ("disappointed", (":(", ":-(")),
    "1f61b": ("stuck_out_tongue", (":P", ":-P", ":p", ":-p")),
    "1f603": ("smiley", (":D", ":-D")),
    "1f609": ("wink", (";)", ";-)")),
    "1f44d": ("thumbsup", ("(y)",)),
    "1f44e": ("thumbsdown", ("(n)",)),
}
_ATLASSIAN: Final = {
    "info": ("(i)",),
    "check_mark": ("(/)",),
    "cross_mark": ("(x)",),
    "warning": ("(!)",),
    "plus": ("(+)",),
    "minus": ("(-)",),
    "question": ("(?)",),
    "light_bulb_on": ("(on)",),
    "light_bulb_off": ("(off)",),
    "yellow_star": ("(*)", "(*y)"),
    "red_star": ("(*r)",),
    "green_star": ("(*g)",),
    "blue_star": ("(*b)",),
    "flag_on": ("(flag)",),
    "flag_off": ("(flagoff)",),
}
_WORD_CHARACTER = re.compile(r"[A-Za-z0-9]")


def emoticon_at(text: str, at: int) -> tuple[str, dict[str, Any]] | None:
    """The emoticon that begins here, as written and as the attributes of an emoji node."""
    for length in range(2, min(_LONGEST, len(text) - at) + 1):
        written = text[at : at + length]
        attributes = EMOTICONS.get(written)
        if attributes and not _WORD_CHARACTER.match(text, at + length):
            return written, dict(attributes)
    return None


def written_as(attributes: dict[str, Any]) -> str | None:
    """The emoticon that reads back as exactly these attributes."""
    return next((text for text, known in EMOTICONS.items() if known == attributes), None)


def _table() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = {}
    for code, (name, forms) in _UNICODE.items():
        attributes = {"shortName": f":{name}:", "id": code, "text": chr(int(code, 16))}
        table.update(dict.fromkeys(forms, attributes))
    for name, forms in _ATLASSIAN.items():
        identifier = "atlassian-question_mark" if name == "question" else f"atlassian-{name}"
        attributes = {"shortName": f":{name}:", "id": identifier, "text": f":{name}:"}
        table.update(dict.fromkeys(forms, attributes))
    return table


EMOTICONS: Final = _table()
