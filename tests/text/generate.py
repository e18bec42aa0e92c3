"""Random documents, made from the published schema itself: ever new seeds, every node type.

Three profiles: `core` (what plain Markdown also knows), `typical` (every node type, ordinary words) and
`adversarial` (every node type, texts full of markup, blanks and odd characters).
"""

import random
import re
from typing import Any

from mooring.text import schema
from mooring.text.tree import Node

PROSE = """the plan review deploys on Monday unless budget says otherwise and our team agrees with it API v2
latency improves by 30% when cache is warm see notes below for details customer feedback was good"""
MARKUP = r"""* ** _ __ ~~ ` `` [x] ] [ ]( ![ <b> </p> < > &amp; & \\ \* --- === *** | a|b :: ::: :u[x] :smile:
{ } {#id} {a=1} http://x.y/z_ www.example.com a_b_c snake_case ( ) ! @ann a*b*c x^2 $1 ~ ~~~ ``` ::p [!NOTE]
{} &#32; <br> https:// a. “q” … - = -- : <https://a.b> é 漢字 😀 " ' +"""
WORDS = PROSE.split()
NASTY = [
    *MARKUP.split(),
    *("[ ]", "# x", "## ", "- x", "+ ", "1. x", "12) y", "> q", "::: info", " ", "  ", "\t", "\n", "\u00a0"),
    *("[INFO] ", "\\\n", "\u2028", "[a]: b", "<!-- c -->", "\r", "\x0b", "\x00", "* ", "a ", " b", "\n\n"),
    *("***a*", "\u200b"),
]
CORE_NODES = "paragraph heading bulletList orderedList listItem codeBlock blockquote rule text hardBreak"
CORE = frozenset(CORE_NODES.split())
CORE_MARKS = {"strong", "em", "code", "link", "strike"}


class Generator:
    def __init__(self, seed: int | str, profile: str = "typical") -> None:
        self.random = random.Random(f"{profile}:{seed}")
        self.profile = profile
        self.definitions: dict[str, Any] = schema.schema()["definitions"]
        self.budget = 60

    def document(self) -> Node:
        self.budget = self.random.choice([8, 20, 60, 120])
        blocks = self.definitions["doc_node"]["properties"]["content"]["items"]["anyOf"]
        content: list[Node] = []
        while self.budget > 0 and len(content) < 12:
            content.append(self._make(self._choose(blocks), 0))
        return {"version": 1, "type": "doc", "content": content}

    def _choose(self, options: list[dict[str, Any]]) -> dict[str, Any]:
        if self.profile == "core":
            options = [each for each in options if self._in_core(each)] or options
        if self.budget <= 0:
            shallow = [
                each for each in options if _name(each).startswith(("paragraph_with_no", "formatted", "text"))
            ]
            options = shallow or options
        return self.random.choice(options)

    def _in_core(self, option: dict[str, Any]) -> bool:
        name = _name(option)
        if not name:
            return True
        kind = _kind(self.definitions, name)
        if name.endswith("_mark"):
            return kind in CORE_MARKS
        if name in ("non_nestable_block_content", "block_content", "inline_node"):
            return True
        return kind in CORE and not name.startswith(
            ("paragraph_with_a", "paragraph_with_i", "paragraph_with_f", "heading_with_a", "heading_with_i")
        )

    def _make(self, rule: dict[str, Any], depth: int, key: str = "") -> Any:
        if "$ref" in rule:
            return self._make(self.definitions[_name(rule)], depth, key)
        if "allOf" in rule:
            return self._make(self._merged(rule["allOf"]), depth, key)
        if "anyOf" in rule:
            return self._make(self._choose(rule["anyOf"]), depth, key)
        if "enum" in rule:
            return self.random.choice(rule["enum"])
        match rule.get("type"):
            case "object":
                return self._object(rule, depth)
            case "array":
                return self._array(rule, depth, key)
            case "string":
                return self._string(rule, key)
            case "number":
                return self._number(rule)
            case "boolean":
                return self.random.random() < 0.5
            case _:
                return self._anything(2)

    def _merged(self, parts: list[dict[str, Any]]) -> dict[str, Any]:
        made: dict[str, Any] = {"type": "object", "properties": {}, "required": []}
        for part in parts:
            body = self.definitions[_name(part)] if "$ref" in part else part
            if "allOf" in body:
                body = self._merged(body["allOf"])
            for name, value in body.get("properties", {}).items():
                made["properties"][name] = value
            made["required"] = [*made["required"], *body.get("required", [])]
        return made

    def _object(self, rule: dict[str, Any], depth: int) -> dict[str, Any]:
        self.budget -= 1
        made: dict[str, Any] = {}
        for name, value in rule.get("properties", {}).items():
            wanted = name in rule.get("required", []) or self.random.random() < self._chance(name, depth)
            if wanted:
                made[name] = self._make(value, depth + 1, name)
        if self.profile == "core" and "attrs" in made:
            made["attrs"].pop("localId", None)
            if not made["attrs"]:
                del made["attrs"]
        if made.get("type") == "text":
            self._settle_marks(made)
        return made

    def _chance(self, name: str, depth: int) -> float:
        if name == "content":
            return 0.95
        if name == "localId":
            return 0.3
        return 0.35

    def _settle_marks(self, made: Node) -> None:
        """At most one mark of a kind, as every product keeps them."""
        if "marks" in made:
            kinds: dict[str, Any] = {}
            for mark in made["marks"]:
                kinds.setdefault(mark["type"], mark)
            if "code" in kinds:
                kinds = {kind: mark for kind, mark in kinds.items() if kind in ("code", "link", "annotation")}
            made["marks"] = list(kinds.values())
            if not made["marks"]:
                del made["marks"]

    def _array(self, rule: dict[str, Any], depth: int, key: str) -> list[Any]:
        items = rule.get("items")
        low, high = rule.get("minItems", 0), rule.get("maxItems", 4 if depth < 6 else 2)
        if items is None:
            return []
        if isinstance(items, list):
            count = self.random.randint(max(low, 1), len(items))
            return [self._make(each, depth + 1) for each in items[:count]]
        high = max(low, min(high, 4 if self.budget > 0 else max(low, 1)))
        if key == "colwidth":
            low = 1
        return [self._make(items, depth + 1) for _ in range(self.random.randint(low, high))]

    def _string(self, rule: dict[str, Any], key: str) -> str:
        pattern = rule.get("pattern")
        if pattern:
            return self._by_pattern(pattern)
        if key in ("url", "href"):
            return self.random.choice(
                [
                    "https://example.com/a",
                    "http://x.y/?q=1&r=2#f",
                    "/wiki/Page_(draft)",
                    "mailto:a@b.c",
                    "https://e.com/a b",
                ]
            )
        if key == "timestamp":
            return self.random.choice(["1782864000000", "1782864000001", str(self.random.randint(0, 2**41))])
        if key in (
            "id",
            "localId",
            "resourceId",
            "uniqueId",
            "occurrenceKey",
            "collection",
            "extensionKey",
            "extensionType",
        ):
            return f"{self.random.randrange(16**8):08x}"
        if key == "language" and self.profile != "adversarial":
            return self.random.choice(["python", "sql", "c++", "text"])
        made = (
            self._text()
            if key in ("text", "title", "alt") or self.profile == "adversarial"
            else self._words()
        )
        return made or ("x" if rule.get("minLength") else "")

    def _by_pattern(self, pattern: str) -> str:
        if "neutral" in pattern:
            return self.random.choice(["neutral", "green", "#abcdef"])
        if re.match(pattern, "#a1B2c3"):
            return f"#{self.random.randrange(16**6):06x}"
        raise ValueError(f"no example for {pattern}")

    def _words(self) -> str:
        return " ".join(self.random.choice(WORDS) for _ in range(self.random.randint(1, 6)))

    def _text(self) -> str:
        if self.profile != "adversarial":
            lead = " " if self.random.random() < 0.25 else ""
            return lead + self._words() + self.random.choice(["", "", " ", ".", ","])
        parts = [
            self.random.choice(NASTY if self.random.random() < 0.6 else WORDS)
            for _ in range(self.random.randint(1, 5))
        ]
        return self.random.choice(["", " "]).join(parts)

    def _number(self, rule: dict[str, Any]) -> int | float:
        low, high = rule.get("minimum", 1), rule.get("maximum", 900)
        if self.random.random() < 0.1 and rule.get("maximum", 100) >= 100:
            return round(self.random.uniform(low, high), 2)
        return self.random.randint(int(low), int(high))

    def _anything(self, depth: int) -> Any:
        choice = self.random.randrange(6 if depth else 4)
        if choice == 4:
            return {self.random.choice(WORDS): self._anything(depth - 1) for _ in range(2)}
        if choice == 5:
            return [self._anything(depth - 1) for _ in range(2)]
        return [self._text(), 3, True, None][choice]


def _name(rule: dict[str, Any]) -> str:
    return rule.get("$ref", "").rpartition("/")[2]


def _kind(definitions: dict[str, Any], name: str) -> str:
    body = definitions[name]
    if "allOf" in body:
        return _kind(definitions, _name(body["allOf"][0]))
    return body.get("properties", {}).get("type", {}).get("enum", [""])[0]


def documents(count: int, profile: str, start: int = 0) -> list[Node]:
    return [Generator(seed, profile).document() for seed in range(start, start + count)]
