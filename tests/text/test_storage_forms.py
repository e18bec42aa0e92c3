"""Every storage form we know comes back as it was, judged by an independent XML library."""

# ruff: noqa: E501  (a form is easier to check on one line)

import re

import pytest
from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]

from mooring.text import storage
from mooring.text.report import Report
from mooring.text.schema import is_valid
from mooring.text.tree import is_raw, walk

_DOCTYPE = '<!DOCTYPE r [<!ENTITY nbsp "&#160;"><!ENTITY eacute "&#233;"><!ENTITY rsquo "&#8217;">]>'
_NAMESPACES = ' xmlns:ac="ac" xmlns:ri="ri" xmlns:at="at"'


def canonical_xml(source: str) -> bytes:
    root = etree.fromstring(f"{_DOCTYPE}<r{_NAMESPACES}>{source}</r>")
    return etree.tostring(root, method="c14n2", strip_text=False)


def macro(name: str, body: str = "", **parameters: str) -> str:
    written = "".join(
        f'<ac:parameter ac:name="{key}">{value}</ac:parameter>' for key, value in parameters.items()
    )
    return (
        f'<ac:structured-macro ac:name="{name}" ac:schema-version="1" ac:macro-id="0f4c-11">'
        f"{written}{body}</ac:structured-macro>"
    )


def rich(content: str) -> str:
    return f"<ac:rich-text-body>{content}</ac:rich-text-body>"


def plain(content: str) -> str:
    return f"<ac:plain-text-body><![CDATA[{content}]]></ac:plain-text-body>"


def link(resource: str, body: str = "", attributes: str = "") -> str:
    return f"<p>see <ac:link{attributes}>{resource}{body}</ac:link> there</p>"


IMAGE = '<ri:attachment ri:filename="a b.png" ri:version-at-save="2" />'
TASK = (
    "<ac:task><ac:task-id>{id}</ac:task-id><ac:task-status>{state}</ac:task-status>"
    '<ac:task-body><span class="placeholder-inline-tasks">{text}</span></ac:task-body></ac:task>'
)

# What a person should be able to read and edit after the conversion: no part of these may be kept verbatim.
READABLE = {
    "paragraph": "<p>Hello</p>",
    "empty paragraph": "<p></p>",
    "paragraph id": '<p local-id="4f">x</p>',
    "auto cursor class": '<p class="auto-cursor-target">x</p>',
    "centred": '<p style="text-align: center;">x</p>',
    "right": '<p style="text-align: right;">x</p>',
    "indented": '<p style="margin-left: 60.0px;">x</p>',
    "odd style": '<p style="text-align: justify; color: red">x</p>',
    "heading": "<h1>One</h1><h2>Two</h2><h3>3</h3><h4>4</h4><h5>5</h5><h6>6</h6>",
    "heading attributes": '<h2 id="x" local-id="1" style="text-align: center;">Two</h2>',
    "marks": "<p><strong>a</strong><em>b</em><u>c</u><del>d</del><sub>e</sub><sup>f</sup><code>g</code></p>",
    "nested marks": "<p><strong>a <em>b <u>c</u></em></strong> <em><strong>d</strong></em></p>",
    "other tags": "<p><b>a</b> <i>b</i> <s>c</s> <ins>d</ins> <tt>e</tt></p>",
    "colour": '<p><span style="color: rgb(255,86,48);">red</span></p>',
    "colour with blanks": '<p><span style="color: rgb(255, 86, 48);">red</span></p>',
    "hex colour": '<p><span style="color: #ff5630;">red</span></p>',
    "HEX colour": '<p><span style="color: #FF5630;">red</span></p>',
    "named colour": '<p><span style="color: red;">red</span></p>',
    "background": '<p><span style="background-color: rgb(255,240,179);">x</span></p>',
    "line breaks": "<p>a<br />b<br/>c</p>",
    "break in marks": "<p><strong>a<br />b</strong></p>",
    "emoji in marks": '<p><em>a <ac:emoticon ac:name="smile" /> b</em></p>',
    "entities": "<p>caf&eacute; it&rsquo;s&nbsp;ok &amp; &lt;b&gt; &#169; &quot;</p>",
    "link": '<p><a href="https://example.com/?a=1&amp;b=2">x</a></p>',
    "link attributes": '<p><a href="https://e.com" title="T" target="_blank" rel="nofollow">x</a></p>',
    "link around code": '<p><a href="https://e.com"><code>x</code></a></p>',
    "marks in link": '<p><a href="https://e.com">a <strong>b</strong></a></p>',
    "link in marks": '<p><strong>a <a href="https://e.com">b</a></strong></p>',
    "page link": link('<ri:page ri:content-title="Home &amp; more" />'),
    "page link, text": link(
        '<ri:page ri:content-title="Home" ri:space-key="DS" ri:version-at-save="3" />',
        "<ac:plain-text-link-body><![CDATA[go <home>]]></ac:plain-text-link-body>",
    ),
    "page link, rich": link(
        '<ri:page ri:content-title="Home" />', "<ac:link-body>go <strong>home</strong></ac:link-body>"
    ),
    "page link, rich but plain": link('<ri:page ri:content-title="H" />', "<ac:link-body>go</ac:link-body>"),
    "page link, card": link(
        '<ri:page ri:content-title="H" />', "<ac:link-body>go</ac:link-body>", ' ac:card-appearance="inline"'
    ),
    "anchor link": link("", "<ac:plain-text-link-body><![CDATA[up]]></ac:plain-text-link-body>", ' ac:anchor="top"'),
    "page anchor": link('<ri:page ri:content-title="P" />', "<ac:link-body>x</ac:link-body>", ' ac:anchor="a b"'),
    "attachment link": link('<ri:attachment ri:filename="x.pdf" />'),
    "url link": link('<ri:url ri:value="http://e.com/?a=b&amp;c" />', "<ac:link-body>u</ac:link-body>"),
    "shortcut link": link('<ri:shortcut ri:key="jira" ri:parameter="ABC-1" />'),
    "blog link": link('<ri:blog-post ri:content-title="B" ri:posting-day="2026/01/02" />'),
    "space link": link('<ri:space ri:space-key="DS" />'),
    "content link": link('<ri:content-entity ri:content-id="123" />'),
    "mention": link('<ri:user ri:account-id="5b10a2844c20165700ede21g" />'),
    "mention id": link('<ri:user ri:account-id="a:b" ri:local-id="77" />'),
    "mention text": link('<ri:user ri:account-id="a" />', "<ac:link-body>@Ann</ac:link-body>"),
    "user key": link('<ri:user ri:userkey="ff80" />'),
    "user name": link('<ri:user ri:username="ann" />'),
    "comment": '<p>a <ac:inline-comment-marker ac:ref="u-1">b <em>c</em></ac:inline-comment-marker></p>',
    "emoji": '<p><ac:emoticon ac:name="blue-star" ac:emoji-shortname=":tada:" ac:emoji-id="1f389" '
    'ac:emoji-fallback="\U0001f389" /></p>',
    "named emoji": '<p><ac:emoticon ac:name="tick" ac:emoji-shortname=":check_mark:" ac:emoji-id="atlassian-c" '
    'ac:emoji-fallback=":check_mark:" /></p>',
    "old emoji": '<p><ac:emoticon ac:name="cheeky" /> <ac:emoticon ac:name="own" /></p>',
    "date": '<p>on <time datetime="2026-07-01" /></p>',
    "date id": '<p>on <time datetime="2026-07-01" local-id="9" /></p>',
    "placeholder": "<p><ac:placeholder>Say who</ac:placeholder></p>",
    "typed placeholder": '<p><ac:placeholder ac:type="mention">@who</ac:placeholder></p>',
    "status": "<p>" + macro("status", title="DONE", colour="Green") + "</p>",
    "status without colour": "<p>" + macro("status", title="OPEN") + "</p>",
    "grey status": "<p>" + macro("status", title="OPEN", colour="Grey") + "</p>",
    "subtle status": "<p>" + macro("status", subtle="true", title="OPEN", colour="Blue") + "</p>",
    "inline card": '<p><a href="https://e.com" data-card-appearance="inline">https://e.com</a> </p>',
    "named inline card": '<p>x <a href="https://e.com" data-card-appearance="inline">E</a></p>',
    "block card": '<a href="https://e.com" data-card-appearance="block">https://e.com</a>',
    "block card in p": '<p><a href="https://e.com" data-card-appearance="block">https://e.com</a></p>',
    "embed card": '<a href="https://e.com" data-layout="center" data-width="80" data-card-appearance="embed">'
    "https://e.com</a>",
    "embed card, decimals": '<a href="https://e.com" data-layout="wide" data-width="100.00" '
    'data-card-appearance="embed">https://e.com</a>',
    "list": "<ul><li><p>a</p></li><li><p>b</p><ul><li><p>c</p></li></ul></li></ul>",
    "bare list": "<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul>",
    "mixed list": "<ul><li>a</li><li><p>b</p></li><li>c</li><li><p>d</p><p>e</p></li></ul>",
    "numbers": '<ol><li>a</li></ol><ol start="3"><li><p>b</p></li></ol><ol start="1"><li><p>b</p></li></ol>',
    "empty item": "<ul><li></li><li><p></p></li></ul>",
    "list attributes": '<ul class="alternate" local-id="5"><li class="x" local-id="6"><p>a</p></li></ul>',
    "quote": "<blockquote><p>a</p><p>b</p></blockquote>",
    "bare quote": "<blockquote>a <em>b</em></blockquote>",
    "rule": "<hr />",
    "code": macro("code", plain("if a < b && c:\n    x()"), language="python"),
    "code settings": macro("code", plain("x"), language="java", title="A.java", linenumbers="true", collapse="true"),
    "empty code": macro("code", "<ac:plain-text-body></ac:plain-text-body>"),
    "code with an end mark": macro("code", plain("a]]]]><![CDATA[>b"), language="xml"),
    "wide code": macro("code", plain("x"), breakoutMode="wide", breakoutWidth="760"),
    "noformat": macro("noformat", plain("x *y*")),
    "info": macro("info", rich("<p>x</p>")),
    "note": macro("note", rich("<p>x</p><ul><li><p>y</p></li></ul>")),
    "tip": macro("tip", rich("<h2>x</h2>")),
    "titled warning": macro("warning", rich("<p>x</p>"), title="Mind", icon="false"),
    "bare info": macro("info", rich("just text")),
    "empty info": macro("info", "<ac:rich-text-body />"),
    "panel id": '<ac:structured-macro ac:name="info" ac:schema-version="1" ac:local-id="l" ac:macro-id="m">'
    "<ac:rich-text-body><p>x</p></ac:rich-text-body></ac:structured-macro>",
    "panel without version": '<ac:structured-macro ac:name="info"><ac:rich-text-body><p>x</p></ac:rich-text-body>'
    "</ac:structured-macro>",
    "panel macro": macro("panel", rich("<p>x</p>"), title="T", bgColor="#fff", borderStyle="dashed"),
    "expand": macro("expand", rich("<p>x</p>"), title="More"),
    "untitled expand": macro("expand", rich("<p>x</p>")),
    "nested expand": macro("expand", rich("<p>x</p>" + macro("expand", rich("<p>y</p>"), title="B")), title="A"),
    "code in expand": macro("expand", rich(macro("code", plain("x"))), title="A"),
    "table of contents": macro("toc", maxLevel="3", style="none"),
    "toc in p": "<p>" + macro("toc") + "</p>",
    "jira": "<p>" + macro("jira", server="S", serverId="1-2", key="ABC-1") + "</p>",
    "jira table": macro("jira", columns="key,summary", jqlQuery="project = A"),
    "anchor": "<h1>" + macro("anchor").replace("</ac:s", '<ac:parameter ac:name="">here</ac:parameter></ac:s')
    + "Title</h1>",
    "excerpt": macro("excerpt", rich("<p>x</p>"), hidden="true"),
    "include": macro("include").replace(
        "</ac:structured-macro>",
        '<ac:parameter ac:name=""><ac:link><ri:page ri:content-title="P" /></ac:link></ac:parameter>'
        "</ac:structured-macro>",
    ),
    "unknown macro": macro("our-own", other="1"),
    "unknown bodied macro": macro("our-own", rich("<p>x</p><table><tbody><tr><td>1</td></tr></tbody></table>")),
    "unknown plain macro": macro("our-own", plain("{json: 1}"), a="b"),
    "macro layout": '<ac:structured-macro ac:name="x" ac:schema-version="1" data-layout="wide" ac:local-id="7" '
    'ac:macro-id="8" />',
    "table": "<table><tbody><tr><th><p>a</p></th><th><p>b</p></th></tr><tr><td><p>1</p></td><td><p>2</p></td></tr>"
    "</tbody></table>",
    "bare table": "<table><tbody><tr><th>a</th><th>b</th></tr><tr><td>1</td><td><br /></td></tr></tbody></table>",
    "table attributes": '<table data-table-width="760" data-layout="center" data-table-display-mode="fixed" '
    'ac:local-id="t"><colgroup><col style="width: 340.0px;" /><col style="width: 120.5px;" /></colgroup>'
    '<tbody><tr><td><p>1</p></td><td data-highlight-colour="#deebff"><p>2</p></td></tr></tbody></table>',
    "table class": '<table class="wrapped relative-table" style="width: 50%;"><colgroup><col /><col /></colgroup>'
    '<tbody><tr><td class="highlight-grey">1</td><td>2</td></tr></tbody></table>',
    "spans": '<table><colgroup><col style="width: 1.0px;" /><col style="width: 2.0px;" /><col style="width: 3.0px;"'
    ' /></colgroup><tbody><tr><td colspan="2"><p>a</p></td><td rowspan="2"><p>b</p></td></tr>'
    "<tr><td><p>c</p></td><td><p>d</p></td></tr></tbody></table>",
    "header column": "<table><tbody><tr><th><p>a</p></th><td><p>1</p></td></tr></tbody></table>",
    "head and foot": "<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>1</td></tr><tr><td>2</td></tr></tbody>"
    "<tfoot><tr><td>3</td></tr></tfoot></table>",
    "no tbody": "<table><tr><td>1</td></tr></table>",
    "blocks in cells": "<table><tbody><tr><td><p>a</p><ul><li><p>b</p></li></ul>"
    + macro("code", plain("x"))
    + macro("info", rich("<p>y</p>"))
    + "</td><td><h3>c</h3>"
    + macro("expand", rich("<p>z</p>"), title="E")
    + "</td></tr></tbody></table>",
    "number column": '<table><tbody><tr><td class="numberingColumn">1</td><td>a</td></tr></tbody></table>',
    "image": f'<ac:image ac:align="center" ac:layout="center" ac:original-height="400" ac:original-width="600" '
    f'ac:alt="An image" ac:width="300" ac:custom-width="true">{IMAGE}</ac:image>',
    "plain image": f"<ac:image>{IMAGE}</ac:image>",
    "old image": f'<ac:image ac:height="250" ac:thumbnail="true" ac:border="true" ac:title="t">{IMAGE}</ac:image>',
    "aligned image": f'<ac:image ac:align="right" ac:width="20">{IMAGE}</ac:image>',
    "image in p": f'<p>a <ac:image ac:width="20" ac:alt="x">{IMAGE}</ac:image> b</p>',
    "image alone in p": f'<p><ac:image ac:height="150">{IMAGE}</ac:image></p>',
    "image by address": '<ac:image ac:align="center" ac:layout="wide"><ri:url ri:value="https://e.com/a.png" />'
    "</ac:image>",
    "caption": f'<ac:image ac:align="center" ac:layout="center">{IMAGE}<ac:caption><p>A <em>b</em></p></ac:caption>'
    "</ac:image>",
    "bare caption": f'<ac:image ac:align="center" ac:layout="center">{IMAGE}<ac:caption>A</ac:caption></ac:image>',
    "border and link": f'<ac:image ac:align="center" ac:layout="center" ac:href="https://e.com">{IMAGE}'
    '<ac:adf-mark key="border" size="2" color="#091e42" /></ac:image>',
    "tasks": "<ac:task-list>"
    + TASK.format(id=1, state="incomplete", text="a <strong>b</strong>")
    + TASK.format(id=2, state="complete", text="c")
    + "</ac:task-list>",
    "task ids": '<ac:task-list ac:task-list-id="77">'
    "<ac:task><ac:task-id>4</ac:task-id><ac:task-uuid>u-1</ac:task-uuid><ac:task-status>incomplete</ac:task-status>"
    "<ac:task-body>x</ac:task-body></ac:task></ac:task-list>",
    "nested tasks": "<ac:task-list>"
    + TASK.format(id=4, state="incomplete", text="Parent")
    + "<ac:task-list>"
    + TASK.format(id=5, state="incomplete", text="Child")
    + "</ac:task-list></ac:task-list>",
    "layout": '<ac:layout><ac:layout-section ac:type="fixed-width" ac:breakout-mode="default"><ac:layout-cell>'
    '<p>before</p></ac:layout-cell></ac:layout-section><ac:layout-section ac:type="two_equal" '
    'ac:breakout-mode="wide" ac:breakout-width="1800"><ac:layout-cell><p>l</p></ac:layout-cell><ac:layout-cell>'
    "<p>r</p></ac:layout-cell></ac:layout-section></ac:layout>",
    "old layout": '<ac:layout><ac:layout-section ac:type="two_left_sidebar"><ac:layout-cell><p>l</p>'
    "</ac:layout-cell><ac:layout-cell>r</ac:layout-cell></ac:layout-section></ac:layout>",
    "three columns": '<ac:layout><ac:layout-section ac:type="three_with_sidebars" ac:breakout-mode="default">'
    "<ac:layout-cell><p>1</p></ac:layout-cell><ac:layout-cell><h1>2</h1></ac:layout-cell><ac:layout-cell />"
    "</ac:layout-section></ac:layout>",
    "decisions": '<ac:adf-extension><ac:adf-node type="decision-list"><ac:adf-attribute key="local-id">d'
    '</ac:adf-attribute><ac:adf-node type="decision-item"><ac:adf-attribute key="local-id">e</ac:adf-attribute>'
    '<ac:adf-attribute key="state">DECIDED</ac:adf-attribute><ac:adf-content>We <em>go</em></ac:adf-content>'
    '</ac:adf-node></ac:adf-node><ac:adf-fallback><ul class="decision-list"><li>We <em>go</em></li></ul>'
    "</ac:adf-fallback></ac:adf-extension>",
    "custom panel": '<ac:adf-extension><ac:adf-node type="panel"><ac:adf-attribute key="panel-type">custom'
    '</ac:adf-attribute><ac:adf-attribute key="panel-icon">:bulb:</ac:adf-attribute><ac:adf-attribute '
    'key="panel-color">#e6fcff</ac:adf-attribute><ac:adf-content><p>x</p></ac:adf-content></ac:adf-node>'
    '<ac:adf-fallback><div class="panel" style="color: red"><p>x</p></div></ac:adf-fallback></ac:adf-extension>',
    "text without p": "just <em>text</em>",
    "text between blocks": "<p>a</p>b<p>c</p>",
    "pretty printed": "<ul>\n  <li>\n    <p>a</p>\n  </li>\n</ul>\n<p>b</p>\n",
}  # fmt: skip

# What ADF has no node for: kept verbatim.
FOREIGN = {
    "div": '<div class="x"><p>a</p></div>',
    "pre": "<pre>a\n  b</pre>",
    "comment": "<p>a</p><!-- <p>b</p> --><p>c <!-- d --> e</p>",
    "instruction": "<p>a <?php x ?> b</p>",
    "heading in quote": "<blockquote><h2>x</h2></blockquote>",
    "strong code": "<p><strong><code>x</code></strong> y</p>",
    "spans": '<p>a <span class="x">b</span> <span style="font-size: 9pt;">c</span></p>',
    "neighbours": "<p><strong>a</strong><strong>b</strong></p>",
    "empty marks": "<p>a<strong></strong><em> </em></p>",
    "twice marked": "<p><strong>a<strong>b</strong></strong></p>",
    "mixed spellings": '<p><b>a</b><strong>c</strong> <span style="color: red;">d</span>'
    '<span style="color: rgb(1,2,3);">e</span></p>',
    "named anchor": '<p><a name="x">y</a></p>',
    "template": '<at:declarations><at:string at:name="a" /></at:declarations><p><at:var at:name="a" /></p>',
    "one column": '<ac:layout><ac:layout-section ac:type="single"><ac:layout-cell><p>x</p></ac:layout-cell>'
    "</ac:layout-section></ac:layout>",
    "two loose sections": "<ac:layout>"
    + '<ac:layout-section ac:type="fixed-width" ac:breakout-mode="default"><ac:layout-cell><p>x</p>'
    "</ac:layout-cell></ac:layout-section>" * 2
    + "</ac:layout>",
    "nested bodies": macro("section", rich(macro("column", rich("<p>x</p>"), width="30%"))),
    "duplicate parameter": macro("info", rich("<p>x</p>")).replace(
        "<ac:rich", '<ac:parameter ac:name="a">1</ac:parameter><ac:parameter ac:name="a">2</ac:parameter><ac:rich'
    ),
    "parameter after body": macro("code", plain("x")).replace(
        "</ac:structured-macro>", '<ac:parameter ac:name="language">c</ac:parameter></ac:structured-macro>'
    ),
    "old macro": '<ac:macro ac:name="x"><ac:default-parameter>y</ac:default-parameter></ac:macro>',
    "odd table": "<table><caption>x</caption><tbody><tr><td>1</td></tr></tbody></table>",
    "empty table": "<table></table>",
    "task with a paragraph": "<ac:task-list><ac:task><ac:task-id>1</ac:task-id><ac:task-status>incomplete"
    "</ac:task-status><ac:task-body><p>x</p></ac:task-body></ac:task></ac:task-list>",
    "image on a page": '<ac:image><ri:attachment ri:filename="a"><ri:page ri:content-title="P" /></ri:attachment>'
    "</ac:image>",
    "unknown elements": "<x:y a='1'>z</x:y>".replace("x:y", "ac:unheard-of"),
    "forge app": '<ac:adf-extension><ac:adf-node type="extension"><ac:adf-attribute key="extension-key">k'
    '</ac:adf-attribute><ac:adf-attribute key="parameters"><ac:adf-parameter key="local-id">x</ac:adf-parameter>'
    "</ac:adf-attribute></ac:adf-node></ac:adf-extension>",
    "huge span": '<table><tbody><tr><td colspan="999999999" rowspan="99999999">1</td></tr></tbody></table>',
}  # fmt: skip

ALL = {**READABLE, **FOREIGN}


def squeezed(source: str) -> str:
    """Without the white space between blocks, which says nothing."""
    return re.sub(r">\n\s*<", "><", source).strip()


@pytest.mark.parametrize("name", ALL)
def test_a_storage_form_comes_back_equal_and_its_tree_is_valid(name: str) -> None:
    tree = storage.read(ALL[name], Report())
    assert is_valid(tree)
    assert canonical_xml(storage.write(tree, Report())) == canonical_xml(squeezed(ALL[name]))


@pytest.mark.parametrize("name", READABLE)
def test_a_known_form_is_read_and_not_kept_verbatim(name: str) -> None:
    tree = storage.read(READABLE[name], Report())
    assert not [node for _, node in walk(tree) if is_raw(node)]


def test_all_forms_on_one_page_come_back_equal() -> None:
    page = "".join(squeezed(source) for source in ALL.values() if "<ac:layout>" not in source)
    page = page.replace(ALL["text without p"], "").replace(ALL["plain image"], "")
    assert canonical_xml(storage.write(storage.read(page, Report()), Report())) == canonical_xml(page)
