"""`mooring convert`: rich text from one format to another, file by file, through a pipe, or line by line."""

import argparse
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from mooring.interfaces.cli.failure import Failed, reason_of

FORMATS = ("adf", "markdown", "storage", "wiki")
_SUFFIXES = {"adf": "json", "markdown": "md", "storage": "xml", "wiki": "txt"}


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "convert",
        help="convert rich text between ADF, Markdown, Confluence storage format and wiki markup",
        description="Convert rich text. Without FILE the text is read from standard input.",
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="what to convert (default: standard input)")
    parser.add_argument("--from", dest="source", required=True, choices=FORMATS, help="format of the input")
    parser.add_argument("--to", dest="target", required=True, choices=FORMATS, help="format to write")
    parser.add_argument(
        "--dialect",
        choices=("extended", "plain"),
        default="extended",
        help="Markdown that keeps everything, or Markdown for readers who know no directives",
    )
    parser.add_argument("--strict", action="store_true", help="fail when something would be lost")
    parser.add_argument(
        "--lenient",
        action="store_true",
        help="keep unreadable input as a visible placeholder instead of failing",
    )
    parser.add_argument(
        "--jsonl", action="store_true", help="one JSON value per line in, one result per line out"
    )
    parser.add_argument("--users", metavar="FILE", help="JSON object of account ids and display names")
    parser.add_argument(
        "--base-url",
        metavar="URL",
        default="",
        help="what relative addresses are relative to (plain Markdown)",
    )
    parser.add_argument("--output", metavar="FILE", help="where to write (default: standard output)")
    parser.add_argument("--report", action="store_true", help="print what was kept, escaped, changed or lost")
    parser.add_argument(
        "--capture", metavar="DIR", help="keep every input and output verbatim in this folder"
    )
    parser.add_argument(
        "--shrink", action="store_true", help="print the smallest part that does not survive the round trip"
    )
    parser.set_defaults(handler="convert:run")


def run(arguments: argparse.Namespace) -> int:
    if arguments.shrink:
        return _shrink(arguments)
    if arguments.jsonl:
        return _lines(arguments)
    source = _input(arguments)
    result, report = _converted(source, arguments)
    written = _as_text(result)
    _capture(arguments, source, written, report)
    _output(arguments, written)
    _tell(arguments, report)
    return 0


def _converted(value: Any, arguments: argparse.Namespace) -> tuple[Any, list[dict[str, str]]]:
    from mooring.text import TextError, convert  # noqa: PLC0415  (other commands need not wait for the parsers)

    try:
        done = convert(
            value,
            arguments.source,
            arguments.target,
            dialect=arguments.dialect,
            strict=arguments.strict,
            lenient=arguments.lenient,
            users=_users(arguments),
            base_url=arguments.base_url,
        )
    except TextError as error:
        raise Failed(str(error)) from error
    return done.result, done.report.as_json()


def _lines(arguments: argparse.Namespace) -> int:
    """A line that cannot be converted says so in its place; the others go on."""
    for line in _input_lines(arguments):
        if not line.strip():
            continue
        answer: dict[str, Any]
        try:
            result, report = _converted(_value(line, arguments.source), arguments)
            answer = {"out": result, "report": report}
            _capture(arguments, line, _as_text(result), report)
        except Failed as error:
            answer = {"err": str(error)}
            _capture(arguments, line, str(error), [])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    return 0


def _value(line: bytes, source: str) -> Any:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Failed(f"not a JSON value: {error}") from error
    if source != "adf" and not isinstance(value, str):
        raise Failed(f"`{source}` is text: every line must be a JSON string")
    return value


def _shrink(arguments: argparse.Namespace) -> int:
    from mooring.text import TextError, read, shrink  # noqa: PLC0415  (as above)

    try:
        document = read(_input(arguments), arguments.source, lenient=arguments.lenient)
    except TextError as error:
        raise Failed(str(error)) from error
    smallest = shrink.shrink(document, shrink.breaks_round_trip(arguments.target, arguments.dialect))
    if smallest is None:
        print(f"the round trip through {arguments.target} is exact", file=sys.stderr)
        return 0
    _output(arguments, json.dumps(smallest, indent=2, ensure_ascii=False) + "\n")
    print("this is the smallest part found that does not survive the round trip", file=sys.stderr)
    return 1


# ---------------------------------------------------------------- files


def _input(arguments: argparse.Namespace) -> bytes:
    if arguments.file in (None, "-"):
        if sys.stdin.isatty():
            print(f"type or paste {arguments.source} text; Ctrl-D ends it", file=sys.stderr)
        return sys.stdin.buffer.read()
    try:
        return Path(arguments.file).read_bytes()
    except OSError as error:
        raise Failed(f"cannot read `{arguments.file}`: {reason_of(error)}") from error


def _input_lines(arguments: argparse.Namespace) -> Iterator[bytes]:
    if arguments.file in (None, "-"):
        yield from sys.stdin.buffer
        return
    yield from _input(arguments).splitlines()


def _output(arguments: argparse.Namespace, written: str) -> None:
    data = written.encode("utf-8", "surrogatepass")
    if arguments.output is None:
        # Into a pipe goes exactly the text; on a terminal the prompt must not stand behind its last line.
        open_line = sys.stdout.isatty() and data and not data.endswith(b"\n")
        sys.stdout.buffer.write(data + b"\n" if open_line else data)
        sys.stdout.buffer.flush()
        return
    try:
        Path(arguments.output).write_bytes(data)
    except OSError as error:
        raise Failed(f"cannot write `{arguments.output}`: {reason_of(error)}") from error


def _as_text(result: Any) -> str:
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, indent=2) + "\n"


def _users(arguments: argparse.Namespace) -> dict[str, str] | None:
    if arguments.users is None:
        return None
    try:
        found = json.loads(Path(arguments.users).read_bytes())
    except (OSError, ValueError) as error:
        raise Failed(f"cannot read users from `{arguments.users}`: {reason_of(error)}") from error
    if not isinstance(found, dict):
        raise Failed(f"`{arguments.users}` must hold one JSON object: account id -> display name")
    return {str(key): str(value) for key, value in cast(dict[Any, Any], found).items()}


def _capture(
    arguments: argparse.Namespace, source: bytes, written: str, report: list[dict[str, str]]
) -> None:
    """Bugs hide in what one believes was converted: keep the exact bytes, named by their hash."""
    if arguments.capture is None:
        return
    folder = Path(arguments.capture)
    name = hashlib.sha256(source).hexdigest()[:12]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.input.{_SUFFIXES[arguments.source]}").write_bytes(source)
        (folder / f"{name}.output.{_SUFFIXES[arguments.target]}").write_bytes(
            written.encode("utf-8", "surrogatepass")
        )
        (folder / f"{name}.report.json").write_text(json.dumps(report, indent=2) + "\n", "utf-8")
    except OSError as error:
        raise Failed(f"cannot keep the conversion in `{folder}`: {reason_of(error)}") from error


def _tell(arguments: argparse.Namespace, report: list[dict[str, str]]) -> None:
    if arguments.report:
        for entry in report:
            print(f"{entry['kind']}: {entry['path'] or '.'}: {entry['detail']}", file=sys.stderr)
        return
    lossy = [entry for entry in report if entry["kind"] in ("lost", "changed")]
    if lossy:
        print(f"{len(lossy)} things are not the same any more; `--report` lists them", file=sys.stderr)
