"""What the types of the schema cannot say: rules about one section, or between several keys of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from mooring.config import files_rules
from mooring.config.credential_rules import OWN_HEADERS, wrong_forwarded
from mooring.config.policy_rules import POLICY_RULES, is_guarded
from mooring.config.problems import KeyPath
from mooring.config.reading import Rule
from mooring.config.schema import Config, Cors, Server, Timeouts, Tls, Upstream, Workload, split_address
from mooring.errors import MooringError
from mooring.policy.credentials.settings import PERSONAL
from mooring.transports.loopback import is_loopback
from mooring.workloads.runconfig import RunConfig
from mooring.workloads.runconfig_effect import spec_of

Findings = Iterator[tuple[KeyPath, str]]

_HEADER_NAME = re.compile(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")
_METHOD = re.compile(r"\*|[A-Z]+")
_HEADER_VALUE = re.compile(r"^[^\r\n\0]*$")


def _config(config: Config) -> Findings:
    if config.audit.enabled and config.audit.output == "otlp" and config.telemetry.otlp_endpoint is None:
        yield ("audit", "output"), "needs a collector: set `telemetry.otlp_endpoint`"
    try:
        host, _ = split_address(config.listen)
    except ValueError as error:
        yield ("listen",), f"{error}, not `{config.listen}`"
        return
    if not is_loopback(host) and not (is_guarded(config.auth) or config.auth.insecure_allow_anonymous):
        yield (
            ("listen",),
            (
                f"is `{config.listen}`, which other machines can reach, and nobody is authenticated: "
                "set `auth.mode`, listen on 127.0.0.1, or set `auth.insecure_allow_anonymous: true` if "
                "everybody may call"
            ),
        )
    if config.workers != 1:
        yield ("workers",), f"cannot be {config.workers}: more than one worker is not supported yet, use 1"
    if config.public_url is not None and (wrong := _wrong_url(config.public_url)):
        yield ("public_url",), wrong
    yield from _duplicate_ids(config.servers)
    yield from _unknown_providers(config)


def _unknown_providers(config: Config) -> Findings:
    for index, server in enumerate(config.servers):
        for key in ("provider", "identity_provider"):
            name = getattr(server.upstream.auth, key) if server.upstream is not None else None
            if name is not None and name not in config.providers:
                path = ("servers", index, "upstream", "auth", key)
                yield path, f"`{name}` is none of `providers`: add it there"


def _duplicate_ids(servers: list[Server]) -> Findings:
    seen: dict[str, int] = {}
    for index, server in enumerate(servers):
        if server.id in seen:
            yield (
                ("servers", index, "id"),
                f"`{server.id}` is also the id of `servers[{seen[server.id]}]`: change one",
            )
        seen.setdefault(server.id, index)


def _tls(tls: Tls) -> Findings:
    if (tls.cert is None) != (tls.key is None):
        missing = "key" if tls.key is None else "cert"
        yield (), f"needs `{missing}` too: give both files or neither"
    for name, file in (("cert", tls.cert), ("key", tls.key)):
        if file is not None and not file.is_file():
            yield (name,), f"is not a file: {file}"


def _cors(cors: Cors) -> Findings:
    for index, origin in enumerate(cors.allowed_origins):
        parts = urlsplit(origin)
        if origin != "*" and (not parts.scheme or not parts.netloc or parts.path or parts.query):
            yield (
                ("allowed_origins", index),
                f"must be scheme and host only, for example `https://app.example.com`, not `{origin}`",
            )
    for index, method in enumerate(cors.allowed_methods):
        if not _METHOD.fullmatch(method):
            yield ("allowed_methods", index), f"must be a method in capitals such as `POST`, not `{method}`"
    for index, name in enumerate(cors.allowed_headers):
        if not _HEADER_NAME.fullmatch(name):
            yield ("allowed_headers", index), "is not a header name"


def _server(server: Server) -> Findings:
    given = [name for name in ("upstream", "workload", "run_config") if getattr(server, name) is not None]
    if not given:
        yield (), "needs `upstream` (a server that already runs) or `workload` (one to start)"
    elif len(given) > 1:
        yield (), f"has both {' and '.join(f'`{name}`' for name in given)}: keep one of them"
    if server.run_config is not None:
        try:
            spec_of(RunConfig.read(server.run_config, name=server.id))
        except MooringError as error:
            yield ("run_config",), f"cannot be used: {error}"
            return
    if server.upstream is not None and server.share == "global" and server.upstream.auth.type in PERSONAL:
        kind = server.upstream.auth.type
        yield (
            ("share",),
            f"cannot be `global` with `auth.type: {kind}`: each caller has their own",
        )
    if len(given) == 1:
        yield from files_rules.server(server)


def _upstream(upstream: Upstream) -> Findings:
    if wrong := _wrong_url(upstream.url):
        yield ("url",), wrong
    if upstream.transport == "sse" and upstream.era == "modern":
        yield ("era",), "`modern` servers do not speak `sse`: change one of them"
    for name, value in upstream.headers.items():
        if not _HEADER_NAME.match(name):
            yield ("headers", name), "is not a header name"
        elif name.lower() in OWN_HEADERS:
            yield ("headers", name), "is set by the gateway itself: remove it"
        elif not _HEADER_VALUE.match(value):
            yield ("headers", name), "has a line break in its value: remove it"
    fixed = {name.lower() for name in upstream.headers} | {upstream.auth.header.lower()}
    for index, name in enumerate(upstream.forward_headers):
        if wrong := wrong_forwarded(name):
            yield ("forward_headers", index), f"`{name}` {wrong}"
        elif name.lower() in fixed:
            yield ("forward_headers", index), f"`{name}` is set in this section too: keep one of them"
    for index, name in enumerate(upstream.require_headers):
        if not _HEADER_NAME.match(name):
            yield ("require_headers", index), f"`{name}` is not a header name"


def _wrong_url(url: str) -> str | None:
    try:
        parts: SplitResult = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return f"is not a URL: {error}"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "must start with `http://` or `https://` and name a host"
    if parts.username is not None or parts.password is not None:
        return "must not carry a user or password: put an `Authorization` header into `headers`"
    if parts.fragment:
        return "must not have a fragment (`#...`): remove it"
    return None


def _workload(workload: Workload) -> Findings:
    if not workload.run[0]:
        yield ("run",), "is empty: give a command"
    if not workload.cwd.is_dir():
        yield ("cwd",), f"is not a folder: {workload.cwd}"
    for name in workload.env:
        if not name or "=" in name or "\0" in name:
            yield ("env", name), "is not the name of an environment variable"


def _timeouts(timeouts: Timeouts) -> Findings:
    if timeouts.total_seconds < timeouts.call_seconds:
        yield ("total_seconds",), "is shorter than `call_seconds`: make it at least as long"


RULES: Mapping[type[Struct], Rule] = {
    Config: _config,
    Tls: _tls,
    Cors: _cors,
    Server: _server,
    Upstream: _upstream,
    Workload: _workload,
    Timeouts: _timeouts,
    **POLICY_RULES,
    **files_rules.FILE_RULES,
}
