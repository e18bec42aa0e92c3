"""Looking into a large result: search and query, run in a process of its own that can be stopped.

`python -m mooring.files.inspecting` reads one question as a line of JSON and the text after it, and answers
with a line of JSON. A pattern that never ends ends with its process.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import resource
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, cast

from mooring.files.faults import BadUpload
from mooring.protocol import surrogates

MEMORY_BYTES: Final = 1024**3
MAX_MATCHES: Final = 50
CONTEXT_CHARS: Final = 120
MAX_ANSWER_CHARS: Final = 20_000


async def inspected(question: dict[str, Any], text: AsyncIterator[bytes], seconds: float) -> dict[str, Any]:
    """Ask a process of its own about a text, which passes through; it is stopped when it takes too long."""
    process = await asyncio.create_subprocess_exec(
        # -P: a server that may write where we were started must not have its `json.py` run by us.
        *(sys.executable, "-P", "-m", "mooring.files.inspecting"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await _tell(process, {**question, "seconds": seconds}, text)
        async with asyncio.timeout(seconds):
            out, _ = await process.communicate()
    except TimeoutError:
        raise BadUpload(f"that took longer than {seconds:g} s: ask for something simpler") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0 or not out:
        raise BadUpload("that could not be done: it needs too much memory; ask for something simpler")
    return json.loads(
        surrogates.readable(out) or out
    )  # half a character can be in JSON, and not in an answer


async def _tell(process: Process, question: dict[str, Any], text: AsyncIterator[bytes]) -> None:
    """It reads everything before it begins; one that has ended already says so with its return code."""
    assert process.stdin is not None
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(json.dumps(question).encode() + b"\n")
        async for block in text:
            process.stdin.write(block)
            await process.stdin.drain()
    process.stdin.close()


def matches(texts: Iterable[str], patterns: Sequence[re.Pattern[str]]) -> list[str]:
    """What each pattern matches, or its first group if it has one."""
    return [
        match.group(1) if pattern.groups and match.group(1) else match.group(0)
        for text in texts
        for pattern in patterns
        for match in pattern.finditer(text)
    ]


def search(text: str, pattern: str, most: int) -> dict[str, Any]:
    """Where a regular expression matches, with what stands around it."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        return {"error": f"`pattern` is not a regular expression: {error}"}
    found: list[dict[str, Any]] = []
    more = False
    size = 0
    for match in compiled.finditer(text):
        if len(found) >= min(most, MAX_MATCHES) or size > MAX_ANSWER_CHARS:
            more = True
            break
        start, end = max(0, match.start() - CONTEXT_CHARS), min(len(text), match.end() + CONTEXT_CHARS)
        line = text.count("\n", 0, match.start()) + 1
        offset = len(text[: match.start()].encode())  # in bytes: that is how it is read
        about = {"offset": offset, "line": line, "match": match.group()[:500]}
        found.append({**about, "around": text[start:end][:2000]})
        size += len(found[-1]["match"]) + len(found[-1]["around"])
    return {"matches": found, "more": more}


def query(text: str, path: str, most: int) -> dict[str, Any]:
    """What a JSONPath finds (RFC 9535)."""
    import jsonpath_rfc9535 as jsonpath  # noqa: PLC0415 - only this process needs it

    try:
        value = json.loads(text)
    except ValueError as error:
        return {"error": f"the result is not JSON ({error}): use the search tool"}
    except RecursionError:
        return {"error": "the result is nested too deeply to query it: use the search tool"}
    found: list[Any] = []
    size = 0
    try:
        for node in jsonpath.finditer(path, value):
            found.append({"path": node.path(), "value": node.value})
            size += len(json.dumps(node.value))
            if len(found) >= min(most, MAX_MATCHES) or size > MAX_ANSWER_CHARS:
                return {"found": _cut(found), "more": True}
    except jsonpath.JSONPathError as error:
        return {"error": f"`path` is not a JSONPath: {error}"}
    return {"found": _cut(found), "more": False}


def _cut(found: list[Any]) -> list[Any]:
    """One huge value must not bring back what was too big in the first place."""
    for entry in found:
        text = json.dumps(entry["value"], ensure_ascii=False)
        if len(text) > MAX_ANSWER_CHARS:
            entry["value"] = text[:MAX_ANSWER_CHARS]
            entry["cut"] = True
    return found


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    question = cast("dict[str, Any]", json.loads(sys.stdin.buffer.readline()))
    _end_after(question["seconds"])
    text = sys.stdin.buffer.read().decode("utf-8", "replace")
    what = question["what"]
    if question["do"] == "matches":
        answer = {"found": matches(json.loads(text), [re.compile(pattern) for pattern in what])}
    else:
        do = {"search": search, "query": query}[question["do"]]
        answer = do(text, what, question["most"])
    sys.stdout.write(json.dumps(answer))


def _end_after(seconds: float) -> None:
    """Whoever would stop us may have been killed: then the kernel does."""
    most = math.ceil(seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))


if __name__ == "__main__":
    main()
