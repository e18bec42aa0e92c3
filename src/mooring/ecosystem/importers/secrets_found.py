"""Which values of an imported server are secrets, and how they leave the entry."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from msgspec.structs import replace

from mooring.ecosystem.importers.found import FoundServer

_SECRET_NAME = re.compile(
    r"token|secret|passw|pwd|api[-_]?key|apikey|private[-_]?key|access[-_]?key|credential|auth|bearer|cookie"
    r"|session|signature|dsn|connection[-_]?string|database[-_]?url|(?:^|[-_])(?:key|pat|pass)(?:$|[-_])",
    re.IGNORECASE,
)
# What well-known services hand out, and anything long that no person would type.
_SECRET_VALUE = re.compile(
    r"(?:sk|pk|rk|ghp|gho|ghs|ghu|github_pat|glpat|xox[abprs]|npm|hf|AKIA|ASIA|AIza|ya29|shpat|dop_v1|lin_api|ntn|secret)"
    r"[-_.A-Za-z0-9]{12,}|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
_DENSE = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9+/_=-]{32,}")
_PASSWORD_IN_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s:@]*:([^/\s@]+)@", re.IGNORECASE)
_QUOTED_PAIR = re.compile(
    r"""(?P<name>[\w.$-]+)["']?\s*[:=]\s*(?P<quote>["'])(?P<value>(?:\\.|(?!(?P=quote)).)+)(?P=quote)"""
)
_FLAG_PAIR = re.compile(r"""(?P<name>--?[\w-]+)["']?(?:=|["']?,\s*["']|\s+)(?P<value>[^\s"',\]]+)""")
_PLAIN_PAIR = re.compile(
    r"""^[-+ ]?\s*(?:- )?["']?(?P<name>[\w.-]+)["']?\s*[:=]\s*(?P<value>[^\s"'{\[].*)$"""
)
_REFERENCE = re.compile(r"\$\{[^}]+\}")
_SCHEME = re.compile(r"(Bearer|Basic|Token)\s+(.+)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Moved:
    """A secret that was found: its new name, its value, and where it stood."""

    name: str
    value: str
    place: str


def looks_secret(name: str, value: str) -> bool:
    """Whether a value under this name should not stand in a plain file."""
    if not value or _REFERENCE.search(value):
        return False
    if _SECRET_VALUE.search(value) or _PASSWORD_IN_URL.search(value):
        return True
    if _SECRET_NAME.search(name):
        return value.lower() not in ("true", "false", "none", "null") and not _is_path(value)
    return bool(_DENSE.fullmatch(value)) and not _is_path(value)


def hidden(line: str) -> str:
    """A line of some configuration without the values that look secret."""

    def hide(match: re.Match[str]) -> str:
        name, value = match.group("name"), match.group("value")
        if not looks_secret(name, value):
            return match.group()
        return match.group().replace(value, "********")

    line = _SECRET_VALUE.sub("********", _PASSWORD_IN_URL.sub("********@", _QUOTED_PAIR.sub(hide, line)))
    return _PLAIN_PAIR.sub(hide, _FLAG_PAIR.sub(hide, line))


def without_secrets(
    server: FoundServer, identifier: str, taken: Container[str], *, whole_headers: bool = False
) -> tuple[FoundServer, tuple[Moved, ...]]:
    """The server with `${secret:NAME}` in place of each secret, and the secrets."""
    moved: list[Moved] = []

    def move(label: str, value: str, place: str) -> str:
        for known in moved:
            if known.value == value:
                return f"${{secret:{known.name}}}"
        name = _free_name(f"{identifier}-{label}", taken, {each.name for each in moved})
        moved.append(Moved(name, value, place))
        return f"${{secret:{name}}}"

    env = {
        key: move(key, value, f"variable `{key}`") if looks_secret(key, value) else value
        for key, value in server.env.items()
    }
    header = _whole_header if whole_headers else _header
    headers = {key: header(key, value, move) for key, value in server.headers.items()}
    command = _command(server.command, move)
    url = None if server.url is None else _url(server.url, move)
    return replace(server, env=env, headers=headers, command=command, url=url), tuple(moved)


Move = Callable[[str, str, str], str]


def _header(key: str, value: str, move: Move) -> str:
    if match := _SCHEME.fullmatch(value):
        scheme, token = match.groups()
        return value if _REFERENCE.search(token) else f"{scheme} {move(key, token, f'header `{key}`')}"
    return move(key, value, f"header `{key}`") if looks_secret(key, value) else value


def _whole_header(key: str, value: str, move: Move) -> str:
    is_token = _SCHEME.fullmatch(value) and not _REFERENCE.search(value)
    return move(key, value, f"header `{key}`") if is_token or looks_secret(key, value) else value


def _command(words: tuple[str, ...], move: Move) -> tuple[str, ...]:
    """`--api-key VALUE`, `--api-key=VALUE`, and values that are secrets by their looks."""
    made: list[str] = []
    previous = ""
    for word in words:
        flag, equals, value = word.partition("=")
        if equals and flag.startswith("-") and looks_secret(flag, value):
            made.append(f"{flag}={move(flag.strip('-'), value, f'argument `{flag}`')}")
        elif previous.startswith("-") and not word.startswith("-") and looks_secret(previous, word):
            made.append(move(previous.strip("-"), word, f"argument `{previous}`"))
        elif _SECRET_VALUE.search(word) or _PASSWORD_IN_URL.search(word):
            made.append(move("argument", word, "an argument"))
        else:
            made.append(word)
        previous = word
    return tuple(made)


def _url(url: str, move: Move) -> str:
    parts = urlsplit(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    if any(looks_secret(key, value) for key, value in query):
        pairs = [
            (key, move(key, value, f"`{key}` in the URL") if looks_secret(key, value) else value)
            for key, value in query
        ]
        parts = parts._replace(query=urlencode(pairs, safe="${}:"))
    if parts.password and not _REFERENCE.search(parts.password):
        user, _, host = parts.netloc.rpartition("@")
        name = user.partition(":")[0]
        parts = parts._replace(netloc=f"{name}:{move('password', parts.password, 'the URL')}@{host}")
    return urlunsplit(parts)


def _is_path(value: str) -> bool:
    return value.startswith(("/", "./", "../", "~")) or bool(re.match(r"[A-Za-z]:[\\/]", value))


def _free_name(wanted: str, taken: Container[str], also: Container[str]) -> str:
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", wanted).strip("_.-") or "secret"
    candidate, number = plain, 2
    while candidate in taken or candidate in also:
        candidate, number = f"{plain}-{number}", number + 1
    return candidate
