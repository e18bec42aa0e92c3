"""Which blocks may stand in which, as the published schema has it."""

_MEDIA = frozenset({"mediaSingle", "mediaGroup"})
_LISTS = frozenset({"bulletList", "orderedList"})
_LEAST = frozenset({"paragraph", "codeBlock", "extension"}) | _LISTS
_PANEL = _LEAST | _MEDIA | {"heading", "blockCard", "taskList", "decisionList", "rule"}
_NESTED = _LEAST | _MEDIA | {"heading", "taskList", "decisionList", "rule", "panel", "blockquote"}
_BODY = _NESTED | {"table", "blockCard", "embedCard"}
_ROOT = _BODY | {"expand", "bodiedExtension"}

ALLOWED: dict[str, frozenset[str]] = {
    "doc": _ROOT | {"layoutSection", "syncBlock", "bodiedSyncBlock"},
    "layoutColumn": _ROOT,
    "blockquote": _LEAST | _MEDIA,
    "listItem": _LEAST | {"mediaSingle", "taskList"},
    "panel": _PANEL,
    "expand": _BODY | {"nestedExpand"},
    "nestedExpand": _NESTED,
    "bodiedExtension": _BODY,
    "tableCell": (_BODY | {"nestedExpand"}) - {"table"},
    "tableHeader": (_BODY | {"nestedExpand"}) - {"table"},
    "bodiedSyncBlock": (_BODY | {"expand", "layoutSection"}) - {"extension"},
    # Nested task lists follow their item in ADF; in text formats they stand inside it.
    "blockTaskItem": frozenset({"paragraph", "extension", "taskList"}),
}

# Which marks a paragraph or heading may carry, by its parent; elsewhere none.
_ALIGNED = frozenset({"alignment", "indentation", "fontSize"})
_SMALL = frozenset({"fontSize"})
PARAGRAPH_MARKS: dict[str, frozenset[str]] = {
    "doc": _ALIGNED,
    "layoutColumn": _ALIGNED,
    "bodiedSyncBlock": _ALIGNED,
    "tableCell": frozenset({"alignment", "fontSize"}),
    "tableHeader": frozenset({"alignment", "fontSize"}),
    "listItem": _SMALL,
    "panel": _SMALL,
    "expand": _SMALL,
    "nestedExpand": _SMALL,
    "bodiedExtension": _SMALL,
    "blockTaskItem": _SMALL,
}
HEADING_MARKS: dict[str, frozenset[str]] = {
    kind: frozenset({"alignment", "indentation"})
    for kind in ("doc", "layoutColumn", "bodiedSyncBlock", "tableCell", "tableHeader")
}
BREAKOUT_PARENTS = frozenset({"doc"})


def marks_allowed(kind: str, parent: str) -> frozenset[str]:
    """The block marks a node of this type may carry in that parent."""
    if kind == "paragraph":
        return PARAGRAPH_MARKS.get(parent, frozenset())
    if kind == "heading":
        return HEADING_MARKS.get(parent, frozenset())
    if kind in ("syncBlock", "bodiedSyncBlock", "layoutSection"):
        return frozenset({"breakout"})
    if kind in ("codeBlock", "expand"):
        return frozenset({"breakout"}) if parent in BREAKOUT_PARENTS else frozenset()
    return frozenset()
