"""How many words of a document can a reader of its Markdown not see?"""

import re
from dataclasses import dataclass

from mooring.text.tree import Node, marks_of, walk

_HIDDEN = (
    re.compile(r"^```adf$.*?^```$", re.MULTILINE | re.DOTALL),
    re.compile(r"<!--.*?-->", re.DOTALL),
    re.compile(r"""\{(?:[^{}"'\n]|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')*\}"""),
)
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Words:
    hidden: int
    total: int


def count_words(document: Node, markdown: str) -> Words:
    """Words of texts that are not code; hidden ones are only in braces, comments or JSON, or nowhere."""
    visible = markdown
    for pattern in _HIDDEN:
        visible = pattern.sub(" ", visible)
    shown: dict[str, int] = {}
    for word in _WORD.findall(re.sub(r"&#?\w+;", " ", visible)):
        shown[word] = shown.get(word, 0) + 1
    hidden = total = 0
    for _, item in walk(document):
        if item.get("type") != "text" or any(mark.get("type") == "code" for mark in marks_of(item)):
            continue
        for word in _WORD.findall(item["text"]):
            total += 1
            if shown.get(word, 0):
                shown[word] -= 1
            elif not any(word in other for other in shown):
                hidden += 1
    return Words(hidden, total)
