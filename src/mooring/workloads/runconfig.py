"""ToolHive's RunConfig v0.1.0, read as it is and written back as it was.

The document itself is kept, so that what we do not know survives a round trip. What we do know is read into
`Fields` and has an effect; what asks for something that Mooring does not do is refused by its name. Keys may
be written in snake_case (as ToolHive does) or in camelCase. What only Mooring knows stands under `mooring`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

import msgspec
from msgspec import Meta, Struct, field

from mooring.errors import MooringError
from mooring.workloads.runconfig_fields import (
    FIELDS,
    MIDDLEWARES,
    Kept,
    Refused,
    duration_seconds,
    is_off,
    notes_on,
)
from mooring.workloads.secrets.errors import SecretsError
from mooring.workloads.secrets.names import SecretUse

SCHEMA_VERSION: Final = "v0.1.0"
NAME_PATTERN: Final = r"^[a-z0-9][a-z0-9._-]{0,63}$"
Share: TypeAlias = Literal["global", "principal", "client", "call"]
RuntimeName: TypeAlias = Literal["process", "container", "docker", "podman", "remote"]
_OWN_HOSTS = ("127.0.0.1", "localhost", "::1")
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class InvalidRunConfig(MooringError):
    """A RunConfig that cannot be used; the message names the field and what to do."""


class Override(Struct, frozen=True, omit_defaults=True):
    """How a tool is shown instead of as its server shows it."""

    name: str = ""
    description: str = ""


class HeaderForward(Struct, frozen=True, omit_defaults=True):
    """Headers that go with every request to a remote server."""

    add_plaintext_headers: dict[str, str] = field(default_factory=dict[str, str])
    add_headers_from_secret: dict[str, str] = field(default_factory=dict[str, str])


class PackageImage(Struct, frozen=True, omit_defaults=True):
    """How a package becomes an image, under a container engine."""

    builder_image: str = ""
    additional_packages: list[str] = field(default_factory=list[str])
    build_with: list[str] = field(default_factory=list[str])
    runtime_env: dict[str, str] = field(default_factory=dict[str, str])


class LimitsWish(Struct, frozen=True, omit_defaults=True):
    """What the workload may use; what is not named keeps the runtime's default, null is no limit."""

    memory_bytes: int | msgspec.UnsetType | None = msgspec.UNSET
    processes: int | msgspec.UnsetType | None = msgspec.UNSET
    open_files: int | msgspec.UnsetType | None = msgspec.UNSET
    cpus: float | msgspec.UnsetType | None = msgspec.UNSET


class IgnoreConfig(Struct, frozen=True, omit_defaults=True):
    """Which patterns hide files in mounted folders; in ToolHive's own spelling of the keys."""

    LoadGlobal: bool = True
    PrintOverlays: bool = False


class Extension(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What ToolHive has no words for."""

    command: list[str] = field(default_factory=list[str])
    """A program of this machine, in place of `image`."""
    cwd: str = ""
    share: Share = "client"
    idle_stop_seconds: Annotated[float, Meta(gt=0)] | None = 1800.0
    runtime: RuntimeName | None = None
    sandbox: Literal["on", "off"] = "on"
    limits: LimitsWish = LimitsWish()
    path: str = "/mcp"
    verify: Literal["off", "warn", "require"] = "warn"


class Fields(Struct, frozen=True):
    """The fields that have an effect."""

    schema_version: str = SCHEMA_VERSION
    name: str = ""
    image: str = ""
    remote_url: str = ""
    cmd_args: list[str] = field(default_factory=list[str])
    transport: Literal["stdio", "sse", "streamable-http", ""] = ""
    proxy_mode: Literal["sse", "streamable-http", ""] = ""
    host: str = ""
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    """An address of its own, besides the one at the gateway; 0: none."""
    allowed_origins: list[str] = field(default_factory=list[str])
    trust_proxy_headers: bool = False
    target_port: Annotated[int, Meta(ge=0, le=65535)] = 0
    publish: list[str] = field(default_factory=list[str])
    volumes: list[str] = field(default_factory=list[str])
    env_vars: dict[str, str] = field(default_factory=dict[str, str])
    container_labels: dict[str, str] = field(default_factory=dict[str, str])
    permission_profile_name_or_path: str = ""
    permission_profile: dict[str, Any] | None = None
    secrets: list[str] = field(default_factory=list[str])
    group: str = ""
    tools_filter: list[str] = field(default_factory=list[str])
    tools_override: dict[str, Override] = field(default_factory=dict[str, Override])
    header_forward: HeaderForward = HeaderForward()
    remote_auth_config: dict[str, Any] | None = None
    token_exchange_config: dict[str, Any] | None = None
    aws_sts_config: dict[str, Any] | None = None
    upstream_swap_config: dict[str, Any] | None = None
    oidc_config: dict[str, Any] | None = None
    authz_config: dict[str, Any] | None = None
    authz_config_path: str = ""
    audit_config: dict[str, Any] | None = None
    audit_config_path: str = ""
    telemetry_config: dict[str, Any] | None = None
    rate_limit_config: dict[str, Any] | None = None
    validating_webhooks: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    mutating_webhooks: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    ignore_config: IgnoreConfig = IgnoreConfig()
    session_ttl: str | int | float = ""
    endpoint_prefix: Annotated[str, Meta(pattern=r"^$|^(/[A-Za-z0-9._~-]+)+/?$")] = ""
    env_file_dir: str = ""
    debug: bool = False
    thv_ca_bundle: str = ""
    jwks_auth_token_file: str = ""
    allow_docker_gateway: bool = False
    obo_config: dict[str, Any] | None = None
    """Not a field of ToolHive's: what its middleware `obo` amounts to."""
    registry_server_name: str = ""
    runtime_config: PackageImage = PackageImage()
    mooring: Extension = Extension()


class RunConfig:
    """One document: `raw` as it is stored and exported, `fields` as it is understood."""

    __slots__ = ("fields", "notes", "raw")

    def __init__(self, raw: dict[str, Any], fields: Fields, notes: tuple[str, ...]) -> None:
        self.raw = raw
        self.fields = fields
        self.notes = notes
        """What the person should know about how it was understood."""

    @classmethod
    def read(cls, document: Mapping[str, Any], *, name: str | None = None) -> RunConfig:
        """Understand a document, or say which fields cannot be used; `name` goes before its own."""
        raw = _snake_case(document)
        raw.setdefault("schema_version", SCHEMA_VERSION)
        if raw["schema_version"] != SCHEMA_VERSION:
            raise InvalidRunConfig(
                f"`schema_version` is {raw['schema_version']!r}, and only {SCHEMA_VERSION} is known: export "
                "it again with a version of ToolHive that writes that one"
            )
        if name:
            raw["name"] = name
        elif not raw.get("name"):
            raw["name"] = raw.get("base_name") or raw.get("container_name") or default_name(raw)
        notes = _judge(raw)
        seen = {key: value for key, value in raw.items() if value is not None} | _from_middlewares(raw)
        try:
            fields = msgspec.convert(seen, Fields)
        except msgspec.ValidationError as error:
            raise InvalidRunConfig(_convert_message(str(error))) from error
        _check(fields)
        found = cls(raw, fields, notes)
        _ = found.session_seconds  # or `InvalidRunConfig`
        return found

    @classmethod
    def decode(cls, data: bytes) -> RunConfig:
        """A stored document."""
        return cls.read(msgspec.json.decode(data))

    def encode(self) -> bytes:
        return msgspec.json.encode(self.raw)

    def changed(self, **values: Any) -> RunConfig:
        """The same with these fields."""
        return RunConfig.read({**self.raw, **values})

    @property
    def name(self) -> str:
        return self.fields.name

    @property
    def is_remote(self) -> bool:
        return bool(self.fields.remote_url)

    @property
    def secret_targets(self) -> dict[str, str]:
        """Environment variable -> name of the secret that it gets."""
        return {target: name for name, target in (split_secret(entry) for entry in self.fields.secrets)}

    @property
    def bearer_secret(self) -> str | None:
        """The stored secret that a remote server gets as a bearer token."""
        given: Any = (self.fields.remote_auth_config or {}).get("bearer_token")
        return split_secret(given)[0] if given else None

    @property
    def session_seconds(self) -> float | None:
        """How long a client's session may be idle; None: as long as any other's."""
        try:
            return duration_seconds(self.fields.session_ttl)
        except ValueError as error:
            raise InvalidRunConfig(f"`session_ttl`: {error}") from error

    def told(self, url: str) -> str:
        """The address that clients are told of a server at this one; both kinds are always served."""
        return f"{url}/sse" if self.fields.proxy_mode == "sse" else url

    @property
    def package(self) -> str:
        """What runs, in the words of whoever asked for it."""
        fields = self.fields
        return fields.remote_url or fields.image or " ".join([*fields.mooring.command, *fields.cmd_args])


def split_secret(entry: str) -> tuple[str, str]:
    """`NAME,target=VARIABLE`"""
    try:
        use = SecretUse.parse(entry)
    except SecretsError as error:
        raise InvalidRunConfig(f"`secrets`: {error}") from error
    return use.name, use.target


def default_name(raw: Mapping[str, Any]) -> str:
    """A name for what has none: the last telling word of what runs."""
    if url := raw.get("remote_url"):
        text = re.sub(r"^https?://", "", str(url)).split("/")[0].split(":")[0]
        if not re.fullmatch(r"[0-9.]+", text):
            text = re.sub(r"^(www|api|mcp)\.", "", text).split(".")[0]
    elif image := raw.get("image"):
        text = re.sub(r"^[a-z]+://", "", str(image))
        text = re.sub(r"(?<!^)(?<!/)@.*$", "", text).rstrip("/").rsplit("/", 1)[-1]
        text = text.split(":", maxsplit=1)[0]
    else:
        text = _command_word(raw)
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._")[:64]


def _command_word(raw: Mapping[str, Any]) -> str:
    extension = raw.get("mooring")
    command = cast("dict[str, Any]", extension).get("command") if isinstance(extension, dict) else None
    words = [str(word) for word in cast("list[Any]", command or [])]
    for index, word in enumerate(words[1:], 1):
        if words[index - 1] == "-m" or re.search(r"\.(py|js|mjs|cjs|ts|sh|rb)$", word):
            return Path(word).stem
    return Path(words[0]).stem if words else ""


def _snake_case(document: Mapping[str, Any]) -> dict[str, Any]:
    raw: dict[str, Any] = {}
    for key, value in document.items():
        name = _WORD.sub("_", key.replace("URL", "Url")).lower()
        if name in raw:
            raise InvalidRunConfig(f"`{name}` is written twice, in snake_case and in camelCase: keep one")
        raw[name] = value
    return raw


def _judge(raw: dict[str, Any]) -> tuple[str, ...]:
    """Refuse what asks for something we do not do; collect what is worth saying."""
    notes: list[str] = []
    for name, value in raw.items():
        match FIELDS.get(name):
            case Refused(why) if not is_off(value):
                raise InvalidRunConfig(f"`{name}` is not supported: {why}")
            case Kept(note) if note and not is_off(value):
                notes.append(f"`{name}` {note}")
            case None if name not in Fields.__struct_fields__:
                notes.append(f"`{name}` is not known here; it is kept and has no effect")
            case _:
                pass
    return (*notes, *notes_on(raw))


def _from_middlewares(raw: dict[str, Any]) -> dict[str, Any]:
    """The fields that a list of middlewares amounts to. Their order is ours, whatever the list says."""
    found: dict[str, Any] = {}
    for entry in _listed(raw, "middleware_configs") + _listed(raw, "additional_middleware_configs"):
        if not isinstance(entry, dict):
            raise InvalidRunConfig("`middleware_configs` must hold objects with `type` and `parameters`")
        kind = str(cast("dict[str, Any]", entry).get("type"))
        parameters: Any = cast("dict[str, Any]", entry).get("parameters") or {}
        if kind not in MIDDLEWARES:
            raise InvalidRunConfig(f"`middleware_configs`: `{kind}` is not a middleware that is known")
        rule = MIDDLEWARES[kind]
        if isinstance(rule, str):
            raise InvalidRunConfig(f"`middleware_configs`: `{kind}` is not supported: {rule}")
        try:
            amounts_to = rule(cast("dict[str, Any]", parameters))
        except ValueError as error:
            raise InvalidRunConfig(f"`middleware_configs`: `{kind}` cannot be used: {error}") from error
        for name, value in amounts_to.items():
            if isinstance(refusal := FIELDS.get(name), Refused):
                raise InvalidRunConfig(f"`middleware_configs`: `{kind}` is not supported: {refusal.why}")
            other = found.get(name, raw.get(name))
            if not is_off(other) and other != value:
                raise InvalidRunConfig(f"`middleware_configs`: `{kind}` and `{name}` disagree: keep one")
            found[name] = value
    return found


def _listed(raw: dict[str, Any], name: str) -> list[Any]:
    entries: Any = raw.get(name) or []
    return cast("list[Any]", entries if isinstance(entries, list) else [entries])


def _check(fields: Fields) -> None:
    sources = [bool(fields.image), bool(fields.remote_url), bool(fields.mooring.command)]
    if sum(sources) != 1:
        raise InvalidRunConfig(
            "needs exactly one of `image`, `remote_url` and `mooring.command`; the file of a client "
            "(`mcpServers`, `servers`) is for `mooring import`"
        )
    if not re.match(NAME_PATTERN, fields.name):
        raise InvalidRunConfig(
            f"`name`: `{fields.name}` must be 1 to 64 of `a-z`, `0-9`, `.`, `_`, `-` and begin with a letter "
            "or digit: choose one with `--name`"
        )
    for entry in fields.secrets:
        split_secret(entry)
    bearer = (fields.remote_auth_config or {}).get("bearer_token")
    if bearer and ",target=" not in str(bearer):
        raise InvalidRunConfig(
            "`remote_auth_config.bearer_token` holds the token itself: store it with `mooring secret set "
            "NAME` and write `NAME,target=bearer_token` here"
        )
    if fields.runtime_config.build_with:
        raise InvalidRunConfig(
            "`runtime_config.build_with` is not supported: build the image yourself and name it in `image`"
        )
    for variable in fields.env_vars:
        if not variable or "=" in variable or "\0" in variable:
            raise InvalidRunConfig(f"`env_vars`: `{variable}` is not the name of a variable")
    if fields.host and not fields.port and fields.host not in _OWN_HOSTS:
        raise InvalidRunConfig("`host` needs a `port` beside it: an address of its own is both")
    if fields.remote_url:
        _check_remote(fields)


def _check_remote(fields: Fields) -> None:
    if not re.match(r"^https?://[^/\s]+", fields.remote_url):
        raise InvalidRunConfig("`remote_url` must start with `http://` or `https://` and name a host")
    if fields.transport == "stdio":
        raise InvalidRunConfig("`transport`: a remote server speaks `streamable-http` or `sse`, not `stdio`")
    given = {"volumes": fields.volumes, "publish": fields.publish, "cmd_args": fields.cmd_args}
    for name, value in given.items():
        if value:
            raise InvalidRunConfig(f"`{name}` means nothing for a remote server: remove it")


def _convert_message(text: str) -> str:
    """`Expected int, got str - at $.target_port` in our own words."""
    what, _, where = text.partition(" - at `$.")
    return f"`{where.rstrip('`')}`: {what[:1].lower()}{what[1:]}" if where else text
