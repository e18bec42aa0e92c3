"""What a gateway loads before it is ready. Everything else waits until somebody uses it."""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, cast

import pytest
from msgspec import Struct, inspect

from mooring.config.schema import Config
from mooring.interfaces.cli.main import build_parser

LIMIT_SECONDS = 60
PLAIN = """
mooring: 1
listen: 127.0.0.1:0
storage: {root: data}
servers:
  - id: library
    upstream: {url: "http://127.0.0.1:9/mcp"}
"""
WAITING = (
    "aiodocker",
    "aiohttp",
    "bpe_openai",
    "cedarpy",
    "configparser",
    "http.client",
    "http.server",
    "jsonpatch",
    "jsonpath_rfc9535",
    "jsonschema_rs",
    "jwt",
    "keyring",
    "markdown_it",
    "multiprocessing",
    "obstore",
    "opentelemetry",
    "prometheus_client",
    "python_multipart",
    "redis",
    "xml",
    "mooring.authoring",
    "mooring.ecosystem.clients",
    "mooring.ecosystem.documents",
    "mooring.ecosystem.registry",
    "mooring.files.service",
    "mooring.interfaces.cli.convert",
    "mooring.interfaces.cli.ecosystem_words",
    "mooring.interfaces.cli.guard_words",
    "mooring.interfaces.cli.lint_words",
    "mooring.interfaces.cli.run_words",
    "mooring.interfaces.cli.upload_words",
    "mooring.interfaces.rest",
    "mooring.policy.authorization",
    "mooring.prompt",
    "mooring.text",
    "mooring.workloads.containers_runtime",
    "mooring.workloads.egress",
    "mooring.workloads.sandbox",
    "mooring.workloads.sandbox_runtime",
    "mooring.workloads.sources",
)
"""Modules, with all that is in them."""


@pytest.mark.e2e
def test_it_is_ready_with_what_a_plain_file_needs(alone: Any) -> None:
    loaded = _loaded(alone)
    assert {"mooring.app.gateway", "mooring.transports.http_listener"} <= loaded
    early = {name for name in loaded for late in WAITING if f"{name}.".startswith(f"{late}.")}
    assert early == set()


def _loaded(command: Any) -> set[str]:
    """The modules of a gateway that has just said that it is ready."""
    (command.folder / "mooring.yaml").write_text(PLAIN)
    words = ["-X", "importtime", "-m", "mooring.interfaces.cli.main", "serve"]
    found: set[str] = set()
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=command.folder,
        env=command.environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if imported := re.fullmatch(r"import time:.*\| +(\S+)\n", line):
                found.add(imported[1])
            elif "is ready at" in line:
                break
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT_SECONDS)
    return found


def test_every_command_is_understood_from_its_own_page(capsys: pytest.CaptureFixture[str]) -> None:
    for word in _words(build_parser()):
        with pytest.raises(SystemExit):
            build_parser().parse_args([word, "--help"])
        expected = capsys.readouterr().out
        few = build_parser(word)
        assert len(_words(few)) < len(_words(build_parser())), f"`{word}` stands on no page"
        with pytest.raises(SystemExit):
            few.parse_args([word, "--help"])
        assert capsys.readouterr().out == expected


def test_the_schema_says_its_types_as_types() -> None:
    """As texts they are compiled again on every start, which took a sixth of it."""
    texts = [
        f"{kind.__qualname__}.{name}"
        for kind in _sections(inspect.type_info(Config), set())
        for name, said in kind.__annotations__.items()
        if isinstance(said, str)
    ]
    assert texts == []


def _words(parser: argparse.ArgumentParser) -> list[str]:
    found = next(action for action in parser._actions if action.choices)
    return list(cast("dict[str, Any]", found.choices))


def _sections(kind: Any, seen: set[type[Struct]]) -> Iterator[type[Struct]]:
    if isinstance(kind, inspect.StructType):
        if kind.cls in seen:
            return
        seen.add(kind.cls)
        yield kind.cls
        for field in kind.fields:
            yield from _sections(field.type, seen)
    for inner in (getattr(kind, name, None) for name in ("type", "item_type", "value_type")):
        if inner is not None:
            yield from _sections(inner, seen)
    for inner in getattr(kind, "types", ()):
        yield from _sections(inner, seen)
