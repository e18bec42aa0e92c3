"""Files of variables: `NAME=VALUE` lines, as `docker --env-file` and agents of secret stores write them."""

from __future__ import annotations

import re
from pathlib import Path

from mooring.errors import MooringError

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_LARGEST_FILE = 1024 * 1024


class UnusableVariables(MooringError):
    """A file or folder of variables cannot be read; the message names it."""

    http_status = 422
    api_code = "invalid_run_config"


def variables_in(folder: str) -> dict[str, str]:
    """What all files of a folder set, in the order of their names; hidden ones are left alone."""
    if not folder:
        return {}
    place = Path(folder)
    if not place.is_absolute():
        raise UnusableVariables(f"`env_file_dir`: `{folder}` must be an absolute path")
    found: dict[str, str] = {}
    try:
        for file in sorted(place.iterdir()):
            if file.is_file() and not file.name.startswith("."):
                found |= _read(file)
    except OSError as error:
        why = (error.strerror or "unreadable").lower()
        raise UnusableVariables(
            f"`env_file_dir`: `{error.filename or folder}` cannot be read: {why}"
        ) from error
    return found


def _read(file: Path) -> dict[str, str]:
    if file.stat().st_size > _LARGEST_FILE:
        raise UnusableVariables(f"`env_file_dir`: `{file}` is too large to be a file of variables")
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise UnusableVariables(f"`env_file_dir`: `{file}` is not UTF-8 text") from error
    found: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            # The line itself may be a secret.
            raise UnusableVariables(f"`env_file_dir`: line {number} of `{file}` is not `NAME=VALUE`")
        found[match[1]] = _unquoted(match[2])
    return found


def _unquoted(value: str) -> str:
    quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if quoted else value
