"""What the inside of `[…]` means, which addresses may be linked, and how bare ones are spelled."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from mooring.text.tree import Mark

BARE_URL = re.compile(
    r"((?:https?|ftps?)://|irc://|mailto:)"
    r"([A-Za-z0-9_?!~^/\\#$%&'()*+,\-.:;<=@]*[A-Za-z0-9_~^/\\#$%&'()*+,\-:;<=@])",
    re.IGNORECASE,
)
_NEVER_LAST: Final = ".,>)];}\"'!"

_SAFE = re.compile(
    r"(?:https?|ftps?|gopher|integrity|file|smb|dynamicsnav|jamfselfservice|scp|sftp|hipchat)://"
    r"|/|#|(?:mailto|skype|callto|facetime|git|irc6?|news|nntp|feed|cvs|svn|mvn|ssh|itms|notes|sourcetree"
    r"|urn|tel|xmpp|telnet|vnc|rdp|whatsapp|slack|sips?|magnet):",
    re.IGNORECASE | re.MULTILINE,
)
_DEFAULT_PORTS: Final = {"http": "80", "https": "443", "ftp": "21"}
_FORBIDDEN_IN_HOST = re.compile(r"[\x00-\x20#%/:<>?@\[\\\]^|\x7f]")


@dataclass(frozen=True, slots=True)
class Link:
    """`[text|target|title]`; `attachment` is the name after `^` in the target."""

    written: str
    text: str | None
    target: str
    title: str | None
    attachment: str | None


def read_link(written: str) -> Link:
    """Take the inside of the brackets apart."""
    text, rest = _take_text(written.replace("&#039;", "'", 1))
    rest, title = _cut_after(rest, rest.find("|"))
    target = rest.strip()
    return Link(written, text, target, title.strip() if title else None, _attachment(target))


def link_mark(href: str) -> Mark:
    return {"type": "link", "attrs": {"href": href}}


def is_safe(address: str) -> bool:
    trimmed = address.strip()
    return not trimmed or _SAFE.match(trimmed) is not None or bool(_SAFE_LINE.search(trimmed))


# An address that spans lines is judged by any of its lines, as Atlassian's check does.
_SAFE_LINE = re.compile(f"^(?:{_SAFE.pattern})", re.IGNORECASE | re.MULTILINE)


def bare_url(text: str, at: int) -> tuple[str, str, str] | None:
    """The address that begins here: as written, the text to show, the address to link."""
    found = BARE_URL.match(text, at)
    if not found:
        return None
    written = found[0].rstrip(_NEVER_LAST)
    shown = found[2].rstrip(_NEVER_LAST) if found[1] == "mailto:" else written
    href = _spelled_out(_unescaped(written))
    return (written, shown, href) if href and shown and is_safe(href) else None


def _unescaped(written: str) -> str:
    return re.sub(r"\\(.?)", r"\1", written, flags=re.DOTALL)


def _take_text(link: str) -> tuple[str | None, str]:
    bang, pipe, last_bang = link.find("!"), link.find("|"), link.rfind("!")
    if bang != -1 and bang <= pipe and bang != last_bang:
        return _take_text_with_image(link)
    if pipe < 0:
        return None, link
    return (link[:pipe] or None), link[pipe + 1 :]


def _take_text_with_image(link: str) -> tuple[str | None, str]:
    inside = False
    for at, character in enumerate(link):
        if character == "!":
            inside = not inside
        elif character == "|" and not inside:
            return link[:at], link[at + 1 :]
    return None, link


def _cut_after(value: str, at: int) -> tuple[str, str | None]:
    if at < 0:
        return value, None
    if at == len(value) - 1:
        return value[:-1], None
    return value[:at], value[at + 1 :]


def _attachment(target: str) -> str | None:
    if not target.startswith("~"):
        shortcut = _cut_after(target, target.rfind("@"))[1]
        if shortcut and shortcut.strip():
            return None
    space, divider, rest = target.partition(":")
    value = rest if divider and space else target.removeprefix(":")
    if value.startswith("$"):
        digits = re.match(r"\$([0-9]*)", value)
        value = value[digits.end() :] if digits else value
    attachment = _cut_after(value, value.find("^"))[1]
    return attachment.strip() or None if attachment else None


def _spelled_out(address: str) -> str | None:
    """The address as a browser would spell it, or None when a browser would refuse it."""
    scheme, _, rest = address.partition(":")
    scheme = scheme.lower()
    if scheme not in _DEFAULT_PORTS:
        return f"{scheme}:{rest}" if rest.strip("/") else None
    try:
        head, mark, tail = _split_query(rest)
        parts = urlsplit(f"{scheme}:{head.replace(chr(92), '/')}")
        port = parts.port
    except ValueError:
        return None
    user, at_sign, host = parts.netloc.rpartition("@")
    host = host.partition(":")[0].lower()
    if not host or _FORBIDDEN_IN_HOST.search(host):
        return None
    shown_port = "" if port is None or str(port) == _DEFAULT_PORTS[scheme] else f":{port}"
    path = _without_dots(parts.path.replace("<", "%3C"))
    query = _encoded_tail(mark + tail)
    return f"{scheme}://{user}{at_sign}{host}{shown_port}{path}{query}"


def _split_query(address: str) -> tuple[str, str, str]:
    found = re.search(r"[?#]", address)
    return (address[: found.start()], found[0], address[found.end() :]) if found else (address, "", "")


def _encoded_tail(tail: str) -> str:
    query, mark, fragment = tail.partition("#")
    return query.replace("<", "%3C").replace("'", "%27") + mark + fragment.replace("<", "%3C")


def _without_dots(path: str) -> str:
    kept: list[str] = []
    segments = path.split("/")[1:] or [""]
    for position, segment in enumerate(segments):
        last = position == len(segments) - 1
        if segment == "..":
            kept[-1:] = []
        elif segment != ".":
            kept.append(segment)
            continue
        if last:
            kept.append("")
    return "/" + "/".join(kept)
