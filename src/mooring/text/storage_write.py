"""ADF's blocks as storage format.

A block that storage format has an element for is written as that element, if all its attributes and marks
have a place there; else as `ac:adf-extension`, which Confluence knows; else as JSON in a macro of ours.
"""

from collections.abc import Callable
from typing import Any

from mooring.text.report import Path, Report
from mooring.text.storage_adf import write_adf
from mooring.text.storage_ids import Extras, attributes_in, unpack
from mooring.text.storage_images import write_image
from mooring.text.storage_layouts import LAYOUTS
from mooring.text.storage_macros import BODY, PANELS, PLAIN, RICH
from mooring.text.storage_marks import NESTING
from mooring.text.storage_tasks import PARTS, SPAN_CLASS, STATES, UNWRAPPED
from mooring.text.storage_texts import BARE, INDENT_STEP, STYLES, WRAPPED, has_one_text
from mooring.text.storage_write_inline import named_macro, write_as_json, write_inline, write_macro
from mooring.text.storage_write_tables import write_table_parts
from mooring.text.storage_xml import Unwritable, cdata, escape_text, tag
from mooring.text.tree import TEXT_BLOCKS, Node, attributes, children, is_raw, marks_of, raw_source

_PANEL_MACROS = {kind: name for name, kind in PANELS.items()}
_STYLES = {align: style for style, align in STYLES.items()}
_SPELLED = ("strong", "em", "underline", "strike", "code", "textColor", "backgroundColor", NESTING)
_CARDS = {"blockCard": "block", "embedCard": "embed"}
_EMBED_ATTRIBUTES = {
    "layout": "data-layout",
    "width": "data-width",
    "originalHeight": "data-original-height",
    "originalWidth": "data-original-width",
}


class BlockWriter:
    def __init__(self, report: Report) -> None:
        self._report = report

    def blocks(self, nodes: list[Node], path: Path, *, bare: bool = False) -> str:
        """Blocks one after the other; `bare` says that a lone text stands without a `p`."""
        written = [
            self.block(node, (*path, "content", index), bare=self.is_bare(nodes, index, bare=bare))
            for index, node in enumerate(nodes)
        ]
        return "".join(written)

    def block(self, node: Node, path: Path, *, bare: bool = False) -> str:
        try:
            native = self._native(node, path, bare=bare)
        except Unwritable:
            native = None
        return native if native is not None else self.foreign(node, path)

    def foreign(self, node: Node, path: Path) -> str:
        """The form for what has no element."""
        extras = unpack(attributes(node).get("localId"))[1]
        try:
            if not set(extras) - {"fallback", *_SPELLED}:
                written = write_adf(node, lambda item: self._content(item, path))
                if written is not None:
                    self._report.escaped(path, f"`{node['type']}` is written as `ac:adf-extension`")
                    return written
        except Unwritable:
            pass
        self._report.escaped(path, f"`{node['type']}` has no storage form and is written as JSON")
        return write_as_json(node)

    def _content(self, node: Node, path: Path) -> str:
        if node["type"] in TEXT_BLOCKS:
            return write_inline(children(node), _spellings(node))
        return self.blocks(children(node), path)

    def is_bare(self, nodes: list[Node], index: int, *, bare: bool = False) -> bool:
        """Is this text written without a `p`? Not beside another run of text: the two would become one."""
        node = nodes[index]
        extras = unpack(attributes(node).get("localId"))[1]
        if node["type"] != "paragraph" or marks_of(node) or WRAPPED in extras or not (bare or BARE in extras):
            return False
        if not children(node):
            return len(nodes) == 1
        around = [*nodes[max(index - 1, 0) : index], *nodes[index + 1 : index + 2]]
        return not any(_runs_on(other) for other in around)

    def _native(self, node: Node, path: Path, *, bare: bool) -> str | None:
        writer = _WRITERS.get(node["type"])
        if writer is None or set(node) - {"type", "attrs", "marks", "content"}:
            return None
        if bare:
            return write_inline(children(node), _spellings(node))
        return writer(self, node, path)

    def text_block(self, node: Node, _path: Path) -> str | None:
        attrs = attributes(node)
        name = "p"
        if node["type"] == "heading":
            level = attrs.get("level")
            if level not in (1, 2, 3, 4, 5, 6):
                return None
            name = f"h{level}"
        given = _text_style(node)
        if given is None or set(attrs) - {"localId", "level"} or (name == "p" and "level" in attrs):
            return None
        content = write_inline(children(node), _spellings(node))
        return _element(name, node, given, content)

    def listing(self, node: Node, path: Path) -> str | None:
        attrs, ordered = attributes(node), node["type"] == "orderedList"
        order = attrs.get("order")
        if set(attrs) - ({"localId", "order"} if ordered else {"localId"}) or marks_of(node):
            return None
        if "order" in attrs and (not isinstance(order, int) or isinstance(order, bool) or order < 0):
            return None
        bare = BARE in unpack(attrs.get("localId"))[1]
        items: list[str] = []
        for index, item in enumerate(children(node)):
            if item["type"] != "listItem" or set(attributes(item)) - {"localId"} or marks_of(item):
                return None
            inner = self.blocks(children(item), (*path, "content", index), bare=bare and has_one_text(item))
            items.append(_element("li", item, {}, inner))
        given = {"start": str(order)} if "order" in attrs else {}
        return _element("ol" if ordered else "ul", node, given, "".join(items))

    def quote(self, node: Node, path: Path) -> str | None:
        if set(attributes(node)) - {"localId"} or marks_of(node):
            return None
        return _element("blockquote", node, {}, self.blocks(children(node), path))

    def rule(self, node: Node, _path: Path) -> str | None:
        return None if set(attributes(node)) - {"localId"} else _element("hr", node, {}, None)

    def code(self, node: Node, _path: Path) -> str | None:
        attrs = attributes(node)
        if set(attrs) - {"language", "uniqueId", "wrap", "hideLineNumbers", "localId"}:
            return None
        if any(child["type"] != "text" or marks_of(child) for child in children(node)):
            return None
        parameters = _breakout_parameters(node)
        if parameters is None:
            return None
        first = {key: str(attrs[key]) for key in ("language", "uniqueId") if key in attrs}
        flags = {
            key: "true" if attrs[key] else "false" for key in ("wrap", "hideLineNumbers") if key in attrs
        }
        source = "".join(child["text"] for child in children(node))
        body = tag(PLAIN, {}, cdata(source))
        return named_macro("code", attrs.get("localId"), {**first, **flags, **parameters}, body)

    def panel(self, node: Node, path: Path) -> str | None:
        attrs = attributes(node)
        name = _PANEL_MACROS.get(str(attrs.get("panelType")))
        if name is None or set(attrs) - {"panelType", "localId"} or marks_of(node):
            return None
        body = tag(RICH, {}, self.blocks(children(node), path))
        return named_macro(name, attrs.get("localId"), {}, body)

    def expand(self, node: Node, path: Path) -> str | None:
        attrs = attributes(node)
        parameters = _breakout_parameters(node)
        if set(attrs) - {"title", "localId"} or parameters is None:
            return None
        title = {"title": str(attrs["title"])} if "title" in attrs else {}
        body = tag(RICH, {}, self.blocks(children(node), path))
        return named_macro("expand", attrs.get("localId"), {**title, **parameters}, body)

    def table(self, node: Node, path: Path) -> str | None:
        return write_table_parts(node, path, self.blocks) if not marks_of(node) else None

    def tasks(self, node: Node, path: Path) -> str | None:
        attrs = attributes(node)
        identifier, extras = unpack(attrs.get("localId"))
        items: list[str] = []
        for index, child in enumerate(children(node)):
            where = (*path, "content", index)
            written = self.tasks(child, where) if child["type"] == "taskList" else _task(child)
            if written is None:
                return None
            items.append(written)
        if set(attrs) - {"localId"} or marks_of(node):
            return None
        given = {"ac:task-list-id": identifier} if identifier else {}
        return tag("ac:task-list", {**given, **attributes_in(extras)}, "".join(items))

    def layout(self, node: Node, path: Path) -> str | None:
        columns = children(node)
        kind, widths = _layout_type(columns)
        identifier, extras = unpack(attributes(node).get("localId"))
        given: dict[str, str] | None = _layout_breakout(node, extras)
        if kind is None or given is None or set(attributes(node)) - {"localId"}:
            return None
        cells: list[str] = []
        for index, column in enumerate(columns):
            attrs = attributes(column)
            if set(attrs) - {"width", "valign", "localId"} or column["type"] != "layoutColumn":
                return None
            own = {} if attrs.get("width") == widths[index] else {"ac:width": str(attrs.get("width"))}
            own |= {"ac:valign": attrs["valign"]} if "valign" in attrs else {}
            inner = self.blocks(children(column), (*path, "content", index))
            cells.append(_element("ac:layout-cell", column, own, inner, "ac:local-id"))
        given = {"ac:type": kind, **given}
        if identifier is not None:
            given["ac:local-id"] = identifier
        return tag("ac:layout-section", {**given, **attributes_in(extras)}, "".join(cells))

    def image(self, node: Node, _path: Path) -> str | None:
        held = children(node)
        if len(held) not in (1, 2) or (len(held) == 2 and held[1]["type"] != "caption"):
            return None
        return write_image(node, _caption(held[1]) if len(held) == 2 else "")

    def card(self, node: Node, _path: Path) -> str | None:
        attrs, kind = attributes(node), node["type"]
        url = attrs.get("url")
        names = _EMBED_ATTRIBUTES if kind == "embedCard" else {}
        if set(attrs) - {"url", "localId", *names} or not isinstance(url, str) or not url or marks_of(node):
            return None
        given = {"href": url, "data-card-appearance": _CARDS[kind]}
        given |= {key: str(attrs[name]) for name, key in names.items() if name in attrs}
        written = _element("a", node, given, escape_text(url))
        return tag("p", {}, written) if "in" in unpack(attrs.get("localId"))[1] else written

    def extension(self, node: Node, _path: Path) -> str | None:
        if marks_of(node):
            return None
        if is_raw(node, "storage"):
            return raw_source(node) if "localId" not in attributes(node) else None
        return write_macro(attributes(node), None)

    def bodied_extension(self, node: Node, path: Path) -> str | None:
        if marks_of(node):
            return None
        return write_macro(attributes(node), self.blocks(children(node), path))


_Writer = Callable[[BlockWriter, Node, Path], str | None]
_WRITERS: dict[str, _Writer] = {
    "paragraph": BlockWriter.text_block,
    "heading": BlockWriter.text_block,
    "bulletList": BlockWriter.listing,
    "orderedList": BlockWriter.listing,
    "blockquote": BlockWriter.quote,
    "rule": BlockWriter.rule,
    "codeBlock": BlockWriter.code,
    "panel": BlockWriter.panel,
    "expand": BlockWriter.expand,
    "nestedExpand": BlockWriter.expand,
    "table": BlockWriter.table,
    "taskList": BlockWriter.tasks,
    "layoutSection": BlockWriter.layout,
    "mediaSingle": BlockWriter.image,
    "blockCard": BlockWriter.card,
    "embedCard": BlockWriter.card,
    "extension": BlockWriter.extension,
    "bodiedExtension": BlockWriter.bodied_extension,
}


def _element(
    name: str, node: Node, given: dict[str, str], content: str | None, id_key: str = "local-id"
) -> str:
    identifier, extras = unpack(attributes(node).get("localId"))
    if identifier is not None:
        given = {**given, id_key: identifier}
    return tag(name, {**given, **attributes_in(extras)}, content)


def _spellings(node: Node) -> Extras:
    extras = unpack(attributes(node).get("localId"))[1]
    return {key: extras[key] for key in _SPELLED if key in extras}


def _text_style(node: Node) -> dict[str, str] | None:
    given: dict[str, str] = {}
    for mark in marks_of(node):
        attrs = attributes(mark)
        if mark["type"] == "alignment" and str(attrs.get("align")) in _STYLES and "style" not in given:
            given["style"] = _STYLES[attrs["align"]]
        elif mark["type"] == "indentation" and isinstance(attrs.get("level"), int) and "style" not in given:
            given["style"] = f"margin-left: {attrs['level'] * INDENT_STEP}.0px;"
        elif mark["type"] == "fontSize" and attrs.get("fontSize") == "small":
            given["data-font-size"] = "small"
        else:
            return None
    return given


def _breakout_parameters(node: Node) -> dict[str, str] | None:
    parameters: dict[str, str] = {}
    for mark in marks_of(node):
        attrs = attributes(mark)
        width = attrs.get("width", 0)
        if (
            mark["type"] != "breakout"
            or set(attrs) - {"mode", "width"}
            or not isinstance(width, int)
            or parameters
        ):
            return None
        parameters = {"breakoutMode": str(attrs.get("mode"))}
        if "width" in attrs:
            parameters["breakoutWidth"] = str(attrs["width"])
    return parameters


def _layout_type(columns: list[Node]) -> tuple[str | None, tuple[float, ...]]:
    widths = tuple(attributes(column).get("width", 0) for column in columns)
    exact = next((name for name, known in LAYOUTS.items() if known == widths), None)
    same_count = next((name for name, known in LAYOUTS.items() if len(known) == len(widths)), None)
    name = exact or same_count
    return name, LAYOUTS[name] if name else ()


def _layout_breakout(node: Node, extras: Extras) -> dict[str, str] | None:
    if "breakout" in extras:
        return {}
    given = {"ac:breakout-mode": "default"}
    for mark in marks_of(node):
        attrs = attributes(mark)
        if mark["type"] != "breakout" or set(attrs) - {"mode", "width"}:
            return None
        given["ac:breakout-mode"] = str(attrs.get("mode"))
        if "width" in attrs:
            given["ac:breakout-width"] = str(attrs["width"])
    return given


def _task(item: Node) -> str | None:
    attrs = attributes(item)
    state = next((name for name, adf in STATES.items() if adf == attrs.get("state")), None)
    if item["type"] != "taskItem" or state is None or set(attrs) - {"localId", "state"} or marks_of(item):
        return None
    identifier, extras = unpack(attrs.get("localId"))
    parts: dict[str, str] = {}
    if "task" in extras:
        parts[PARTS[0]] = extras["task"]
    if identifier:
        parts[PARTS[1] if "task" in extras or not identifier.isdigit() else PARTS[0]] = identifier
    parts[PARTS[2]] = state
    inner = write_inline(children(item), _spellings(item))
    body = inner if UNWRAPPED in extras else tag("span", {"class": SPAN_CLASS}, inner)
    written = "".join(tag(name, {}, escape_text(value)) for name, value in parts.items())
    return tag("ac:task", {}, written + tag(PARTS[3], {}, body))


def _caption(caption: Node) -> str:
    inner = write_inline(children(caption), _spellings(caption))
    extras = unpack(attributes(caption).get("localId"))[1]
    return _element(
        "ac:caption", caption, {}, inner if BARE in extras else tag("p", {}, inner), "ac:local-id"
    )


def _runs_on(node: Node) -> bool:
    """Would this block and text beside it be read as one run of text?"""
    kind, attrs = node["type"], attributes(node)
    if kind == "paragraph":
        return BARE in unpack(attrs.get("localId"))[1]
    if kind in ("mediaSingle", "blockCard", "embedCard"):
        return True
    if kind != "extension":
        return False
    if is_raw(node, "storage"):
        return attrs.get("extensionKey") in ("ac:structured-macro", "ac:image", "a")
    settings = attrs.get("parameters")
    parameters: Any = settings.get("macroParams") if isinstance(settings, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return not (isinstance(parameters, dict) and BODY in parameters)
