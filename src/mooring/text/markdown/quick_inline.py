"""Ordinary inline Markdown, read in one pass: plain words, code, strong, em, links and atoms.

Only texts in which every delimiter can be nothing but an opener or nothing but a closer, and in which all of
them pair up, are read here; the result is then the same as by the full rules. Everything else is None, and
the full parser reads it.
"""

import re
from typing import Any

from mooring.text.markdown import atoms, attributes, shortnames
from mooring.text.markdown.mark_runs import TEXT_KEYS
from mooring.text.report import Report
from mooring.text.tree import Mark, Node, sort_marks

_NEXT = re.compile(r"[\\`*_~\[\]<&!:@\n{]|www\.")
_CODE = re.compile(r"(`+)(?!`)(.*?[^`])\1(?!`)", re.DOTALL)
# An ampersand in an address is only one when no entity begins there.
_LINK_END = re.compile(r"\]\(((?:[^\s<>()\[\]\\&`]|&(?!#?\w+;))*)\)(?!\{)")
_ATOM = re.compile(r":([A-Za-z]\w*)\[((?:[^\[\]\\\n&]|\\[^\n])*)\]")
_DIRECTIVE = re.compile(r":\w*\[")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_STRONG: Mark = {"type": "strong"}
_EM: Mark = {"type": "em"}
_CODE_MARK: Mark = {"type": "code"}
_LETTERS = re.compile(r"[A-Za-z0-9]")
_BEFORE_OPENER = frozenset(" (*_[")
_AFTER_CLOSER = frozenset(" .,;:!?)*_]")


def read_quickly(source: str, report: Report) -> list[Node] | None:
    """The nodes of an ordinary text, or None when it needs the full rules."""
    reading = _Reading(source, report)
    return reading.nodes if reading.run() else None


class _Reading:
    __slots__ = ("_at", "_marks", "_report", "_source", "_stack", "nodes")

    def __init__(self, source: str, report: Report) -> None:
        self._source = source
        self._report = report
        self._at = 0
        self._stack: list[str] = []
        self._marks: list[Mark] = []
        self.nodes: list[Node] = []

    def run(self) -> bool:
        source = self._source
        search = _NEXT.search
        while True:
            found = search(source, self._at)
            if not found:
                break
            at = found.start()
            if at > self._at:
                self._text(source[self._at : at])
                self._at = at
            if not self._special(source[at], at):
                return False
        if self._stack:
            return False
        self._text(source[self._at :])
        return True

    def _special(self, character: str, at: int) -> bool:
        match character:
            case "`":
                return self._code(at)
            case "*" | "_":
                return self._delimiter(character, at)
            case "[":
                return self._open_link(at)
            case "]":
                return self._close_link(at)
            case ":":
                return self._atom(at)
            case "\\":
                return self._escape(at)
            case "@":
                # Part of an e-mail address or of a mention, unless a blank follows.
                return self._source[at + 1 : at + 2] in _AFTER_CLOSER and self._literal(at, character)
            case "!" | "{":
                return self._literal(at, character)
            case _:
                return False

    def _literal(self, at: int, character: str) -> bool:
        """`!` before a bracket starts an image; braces after a link or an atom are theirs."""
        if character == "!" and self._source.startswith("[", at + 1):
            return False
        if character == "{" and at and self._source[at - 1] in ")]":
            return False
        self._text(character)
        self._at = at + 1
        return True

    def _escape(self, at: int) -> bool:
        found = _ESCAPE.match(self._source, at)
        if not found:
            if self._source.startswith("\\\n", at) or at + 1 == len(self._source):
                return False
            return self._literal(at, "\\")
        self._text(found[1])
        self._at = found.end()
        return True

    def _code(self, at: int) -> bool:
        found = _CODE.match(self._source, at)
        if (
            not found
            or "\n" in found[2]
            or (self._marks and "link" not in self._stack)
            or len(self._marks) > 1
        ):
            return False
        code = found[2]
        if len(code) > 1 and code[0] == code[-1] == " " and code.strip(" "):
            code = code[1:-1]
        self._append(code, [*self._marks, _CODE_MARK])
        self._at = found.end()
        return True

    def _delimiter(self, character: str, at: int) -> bool:
        source = self._source
        kind = "**" if source.startswith("**", at) else character
        if source.startswith(kind[0], at + len(kind)) or (character == "_" and source.startswith("__", at)):
            return False
        before = source[at - 1] if at else " "
        after = source[at + len(kind)] if at + len(kind) < len(source) else " "
        self._at = at + len(kind)
        if before in _BEFORE_OPENER and _LETTERS.match(after) and kind not in self._stack:
            if (kind == "*" and "**" in self._stack) or ({"*": "_", "_": "*"}.get(kind) in self._stack):
                return False
            self._push(kind, _STRONG if kind == "**" else _EM)
            return True
        if self._stack and self._stack[-1] == kind and after in _AFTER_CLOSER and before not in " \\":
            self._pop()
            return _LETTERS.match(before) is not None or (before in ".`)]_*" and before != character)
        if before in _BEFORE_OPENER and kind not in self._stack and after in "_*[`:" and after != character:
            self._push(kind, _STRONG if kind == "**" else _EM)
            return kind == "**" or "**" not in self._stack
        if character == "_" and _LETTERS.match(before) and _LETTERS.match(after):
            self._text("_")
            return True
        return False

    def _open_link(self, at: int) -> bool:
        if "link" in self._stack or (at and self._source[at - 1] in "!]"):
            return False
        self._push("link", {"type": "link", "attrs": {}})
        self._at = at + 1
        return True

    def _close_link(self, at: int) -> bool:
        found = _LINK_END.match(self._source, at)
        if not found or not self._stack or self._stack[-1] != "link" or self._source[at - 1] == "[":
            return False
        if found[1].startswith("accountid:"):
            return False
        self._marks[-1]["attrs"]["href"] = found[1]
        self._pop()
        self._at = found.end()
        return True

    def _atom(self, at: int) -> bool:
        found = _ATOM.match(self._source, at)
        if not found:
            if self._source.startswith("://", at):
                return False
            if _DIRECTIVE.match(self._source, at) or shortnames.PATTERN.match(self._source, at):
                return False
            return self._literal(at, ":")
        name, given, end = found[1], {}, found.end()
        if name not in atoms.SIMPLE and name not in ("date", "emoji"):
            return False
        if self._source.startswith("{", end):
            parsed = attributes.parse(self._source, end)
            if parsed is None:
                return False
            given, end = parsed
        made = atoms.read_atom(name, found[2], dict(given))
        if made is None or made[1]:
            return False
        self.nodes.append(made[0])
        self._at = end
        return True

    def _push(self, kind: str, mark: Mark) -> None:
        self._stack.append(kind)
        self._marks.append(mark)

    def _pop(self) -> None:
        self._stack.pop()
        self._marks.pop()

    def _text(self, value: str) -> None:
        if value:
            self._append(value, self._marks)

    def _append(self, value: str, marks: list[Mark]) -> None:
        nodes = self.nodes
        if len(marks) > 1:
            marks = sort_marks(list(marks))
        if nodes and nodes[-1]["type"] == "text":
            last: Any = nodes[-1]
            if last.get("marks", []) == marks and TEXT_KEYS.issuperset(last):
                last["text"] += value
                return
        if marks:
            nodes.append({"type": "text", "text": value, "marks": list(marks)})
        else:
            nodes.append({"type": "text", "text": value})
