"""Finding in a result what a tool made: paths in text, a structured key, bytes in the result itself."""

from __future__ import annotations

import json
import mimetypes
import re
from collections.abc import AsyncIterator
from typing import Any, Final, cast
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from mooring.files.adapters import DEFAULT_REGEXES, Locator, LocatorMode
from mooring.files.captured import Embedded, decoded
from mooring.files.confinement import NotCapturable
from mooring.files.faults import BadUpload, TooMany
from mooring.files.inspecting import inspected, matches
from mooring.files.turns import TurnRules, Turns

Json = dict[str, Any]
MAX_TEXT: Final = 256 * 1024
"""How much of a text is searched for paths; a tool names its files near the beginning."""
MAX_PATHS: Final = 50
MATCH_SECONDS: Final = 5.0
"""How long the patterns of an adapter may look for paths."""
MATCHING: Final = TurnRules(
    running=4, running_per_scope=4, waiting=10_000, waiting_per_scope=10_000, wait_seconds=60.0
)
"""Each is a process. What a tool made should be kept, so that calls rather wait than do without."""
_turns = Turns(MATCHING)
# Base64 may be broken into lines, of 60 signs or more; what stands behind it in a line is no part of it.
_DATA_URI: Final = re.compile(
    r"(?<!\w)data:([\w.+-]+/[\w.+-]+)?(?:;(?!base64,)[\w=.+-]+)*+"
    r"(?:;base64,((?:[a-z0-9+/]{60,}+\r?\n(?=[a-z0-9+/]+={0,2}\s*?$))*+[a-z0-9+/]++={0,2})"
    r"|,([^\s\"'<>()\[\]`]+))",
    re.IGNORECASE | re.MULTILINE | re.ASCII,
)


async def named_paths(result: Json, locator: Locator) -> list[str]:
    """Every path that the result names, in order, without `file://`.

    What tools write is not to be trusted, and a pattern of the configuration may take for ever on it: it is
    tried in a process that can be stopped.
    """
    if locator.mode is LocatorMode.STRUCTURED and locator.key is not None:
        found = [place.value for place in locator.key.places(_object(result.get("structuredContent")))]
        return [plain_path(value) for value in found if isinstance(value, str)][:MAX_PATHS]
    if locator.mode is not LocatorMode.REGEX:
        return []
    texts = [str(block.get("text", "")) for block in blocks(result) if block.get("type") == "text"]
    texts = [text[:MAX_TEXT] for text in texts]
    if locator.regexes is DEFAULT_REGEXES:
        found = matches(texts, locator.regexes)
    else:
        question = {"do": "matches", "what": [pattern.pattern for pattern in locator.regexes]}
        try:
            async with _turns.turn(""):
                found = (await inspected(question, _encoded(texts), MATCH_SECONDS))["found"]
        except (BadUpload, TooMany) as error:
            raise NotCapturable("`output_path_regexes` take too long on what it said") from error
    return list(dict.fromkeys(plain_path(path) for path in found))[:MAX_PATHS]


async def _encoded(texts: list[str]) -> AsyncIterator[bytes]:
    yield json.dumps(texts).encode()


def plain_path(text: str) -> str:
    """The path that somebody wrote, as a path or as a `file://` URI."""
    if text.startswith("file://"):
        return unquote(_path_in(text))
    return text


def _path_in(uri: str) -> str:
    """The path of a URI. Servers write what they like: one that is none has nothing but its text."""
    try:
        return urlsplit(uri).path
    except ValueError:
        return uri


def replaced(text: str, path: str, by: str) -> str:
    """The text with this path replaced where it stands on its own, not as a part of a longer one."""
    found = text.find(path)
    while found >= 0:
        after = found + len(path)
        if _ends_before(text, found) and _ends_after(text, after):
            text = text[:found] + by + text[after:]
            after = found + len(by)
        found = text.find(path, after)
    return text


def _ends_before(text: str, start: int) -> bool:
    return start == 0 or not (text[start - 1].isalnum() or text[start - 1] in "_-./")


def _ends_after(text: str, end: int) -> bool:
    if text[end : end + 1] == ".":  # the end of a sentence, or of a name that goes on
        end += 1
    sign = text[end : end + 1]
    return not (sign.isalnum() or sign in ("_", "-", "/"))


def embedded(result: Json) -> list[Embedded]:
    """Images, audio, resource blobs and texts, and data URIs, as files."""
    found: list[Embedded] = []
    for block in blocks(result):
        kind = block.get("type")
        if kind in ("image", "audio"):
            _add(found, block.get("data"), str(block.get("mimeType") or ""), str(kind))
        elif kind == "resource":
            _add_resource(found, _object(block.get("resource")))
        elif kind == "text":
            for match in _DATA_URI.finditer(str(block.get("text", ""))):
                _add_uri(found, match)
    return found


def _add_uri(found: list[Embedded], match: re.Match[str]) -> None:
    kind, encoded, plain = match.groups()
    if encoded is not None:
        _add(found, re.sub(r"\s", "", encoded), kind or "", "data")
    elif kind is not None:  # without one it is more likely a word of a sentence
        found.append(Embedded(_named("data", kind), unquote_to_bytes(plain), kind))


def _add_resource(found: list[Embedded], resource: Json) -> None:
    name = unquote(_path_in(str(resource.get("uri") or "")).rsplit("/", 1)[-1]) or "resource"
    mime_type = str(resource.get("mimeType") or "")
    if isinstance(resource.get("blob"), str):
        _add(found, resource["blob"], mime_type, name)
    elif isinstance(resource.get("text"), str):
        found.append(Embedded(_named(name, mime_type), resource["text"].encode(), mime_type))


def _add(found: list[Embedded], data: Any, mime_type: str, name: str) -> None:
    raw = decoded(data) if isinstance(data, str) else None
    if raw is not None:
        found.append(Embedded(_named(name, mime_type), raw, mime_type))


def _named(name: str, mime_type: str) -> str:
    if "." in name:
        return name
    return name + (mimetypes.guess_extension(mime_type) or "" if mime_type else "")


def blocks(result: Json) -> list[Json]:
    content = result.get("content")
    items = cast("list[Any]", content) if isinstance(content, list) else []
    return [cast("Json", block) for block in items if isinstance(block, dict)]


def _object(value: Any) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}
