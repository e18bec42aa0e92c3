"""Links between Confluence things (`ac:link`) as addresses: `confluence:page?content-title=Home`.

The kind is the name of the `ri:` element, the query its attributes; `ac:` attributes of the link keep their
prefix. `body` says how the text is written when it is not the usual way.
"""

from urllib.parse import parse_qsl, quote, urlencode

from mooring.text.storage_xml import Element, cdata, tag
from mooring.text.tree import Mark, attributes

SCHEME = "confluence:"
_BODIES = {"ac:link-body": "rich", "ac:plain-text-link-body": "plain"}
_ANCHOR = "anchor"


def href_of(link: Element) -> str | None:
    """The address of an `ac:link`, or None for what no address can say (people, nested resources)."""
    parts = link.elements()
    resource = parts[0] if parts and parts[0].name.startswith("ri:") else None
    rest = parts[1:] if resource else parts
    if not link.has_only_elements() or len(rest) > 1 or (rest and rest[0].name not in _BODIES):
        return None
    if resource and (resource.children or resource.name == "ri:user" or not _has_prefix(resource, "ri:")):
        return None
    if not _has_prefix(link, "ac:") or (rest and rest[0].attributes):
        return None
    query = {
        key.removeprefix("ri:"): value for key, value in (resource.attributes.items() if resource else ())
    }
    query |= link.attributes
    body = _body_note(rest[0] if rest else None)
    if body:
        query["body"] = body
    kind = resource.name.removeprefix("ri:") if resource else _ANCHOR
    return _address(kind, query)


def body_of(link: Element) -> Element | None:
    return next((part for part in link.elements() if part.name in _BODIES), None)


def shown_name(link: Element) -> str:
    """What a link without a text of its own shows: the name of what it leads to."""
    resource = next((part for part in link.elements() if part.name.startswith("ri:")), None)
    given = {**(resource.attributes if resource else {}), **link.attributes}
    names = (
        "ri:content-title",
        "ri:filename",
        "ri:value",
        "ri:key",
        "ri:space-key",
        "ac:anchor",
        "ri:content-id",
    )
    return next((given[name] for name in names if given.get(name)), "link")


def is_page_link(mark: Mark) -> bool:
    href = attributes(mark).get("href")
    return set(attributes(mark)) == {"href"} and isinstance(href, str) and _parts(href) is not None


def write_page_link(href: str, content: str, *, is_plain: bool) -> str | None:
    """The `ac:link` for an address; `content` is storage format, plain text when `is_plain`."""
    found = _parts(href)
    if found is None:
        return None
    kind, query = found
    note = query.pop("body", "")
    given = {key: value for key, value in query.items() if key.startswith("ac:")}
    resource = {f"ri:{key}": value for key, value in query.items() if not key.startswith("ac:")}
    target = "" if kind == _ANCHOR else tag(f"ri:{kind}", resource)
    if note == "none":
        return tag("ac:link", given, target) if target else tag("ac:link", given)
    if note == "plain" or (is_plain and note != "rich"):
        return tag("ac:link", given, target + tag("ac:plain-text-link-body", {}, content))
    return tag("ac:link", given, target + tag("ac:link-body", {}, content))


def takes_plain_body(href: str, *, is_plain: bool) -> bool:
    """Will the text be written as character data?"""
    found = _parts(href)
    return found is not None and is_plain and found[1].get("body") not in ("rich", "none")


def plain_body(text: str) -> str:
    return cdata(text)


def _body_note(body: Element | None) -> str:
    if body is None:
        return "none"
    usual = "plain" if body.only_text() else "rich"
    return "" if _BODIES[body.name] == usual else _BODIES[body.name]


def _address(kind: str, query: dict[str, str]) -> str | None:
    if query.get("body", "none") not in ("none", "rich", "plain"):
        return None
    written = f"{SCHEME}{kind}?" + urlencode(query, quote_via=quote, safe=":/@,")
    return written.removesuffix("?") if _parts(written) or _parts(written.removesuffix("?")) else None


def _parts(href: str) -> tuple[str, dict[str, str]] | None:
    if not href.startswith(SCHEME):
        return None
    kind, _, query = href.removeprefix(SCHEME).partition("?")
    found = dict(parse_qsl(query, keep_blank_values=True))
    spelled = f"{SCHEME}{kind}?" + urlencode(found, quote_via=quote, safe=":/@,")
    if not kind.replace("-", "").isalpha() or spelled.removesuffix("?") != href:
        return None
    return kind, found


def _has_prefix(element: Element, prefix: str) -> bool:
    return all(key.startswith(prefix) for key in element.attributes)
