"""What `mooring.yaml` may say: one frozen Struct per section, each key described where it is defined.

The descriptions are the source of `docs/reference/configuration.md`. Defaults here are the program's
defaults; there is no second place that knows one.

Nowhere in the schema are annotations postponed: the reader needs the types themselves, and to make them from
texts took a sixth of every start.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from mooring.config.files import Adapter, Artifacts, Core, Results, ServerFiles, ServerResults, Uploads
from mooring.config.savings import Savings
from mooring.config.units import BYTES, COMMAND, PROFILE
from mooring.policy.credentials.settings import Provider, UpstreamAuth
from mooring.policy.settings import (
    Approvals,
    Audit,
    Auth,
    Authorization,
    ConcurrencyLimit,
    Pinning,
    Plugin,
    RateLimit,
    RateStore,
    Sanitize,
    Telemetry,
    Tools,
    Webhooks,
)
from mooring.workloads.profile import PermissionProfile

Era = Literal["auto", "legacy", "modern"]
UpstreamTransport = Literal["auto", "streamable_http", "sse"]
Share = Literal["global", "principal", "client", "call"]


class Tls(Struct, frozen=True):
    """Serve HTTPS. Both files or neither."""

    cert: Annotated[Path | None, Meta(description="PEM file with the certificate and its chain.")] = None
    key: Annotated[Path | None, Meta(description="PEM file with the private key.")] = None


class Cors(Struct, frozen=True):
    """Which web pages may call the gateway from a browser."""

    allowed_origins: Annotated[
        list[str],
        Meta(
            description="Origins such as `https://app.example.com`; `*` allows every page. Empty: only "
            "pages served from the gateway's own address."
        ),
    ] = field(default_factory=list[str])
    allowed_methods: Annotated[
        list[str],
        Meta(
            description="Methods such as `POST` that these pages may use; `*` allows all. Calls need `POST`, "
            "streams `GET`, ending a session `DELETE`, uploads `POST`, or `PUT`, `PATCH` and `HEAD`."
        ),
    ] = field(default_factory=lambda: ["*"])
    allowed_headers: Annotated[
        list[str],
        Meta(
            description="Headers that these pages may send besides `Content-Type`; `*` allows all. Calls "
            "need `Mcp-Session-Id` and `MCP-Protocol-Version`, since 2026-07-28 also `Mcp-Method` and "
            "`Mcp-Name`, and whatever carries their credential."
        ),
    ] = field(default_factory=lambda: ["*"])


class Limits(Struct, frozen=True):
    """What one peer may cost."""

    max_body_bytes: Annotated[
        int, Meta(ge=1024, extra=BYTES, description="Largest request body a client may send.")
    ] = 8 * 1024**2
    max_message_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            extra=BYTES,
            description="Largest single message a server may send. Large ones flow through, or wait on disk "
            "in the data directory; they are not held in memory.",
        ),
    ] = 64 * 1024**2
    max_connections: Annotated[
        int, Meta(ge=1, description="Open client connections; further ones wait or are refused.")
    ] = 10_000
    rate: Annotated[list[RateLimit], Meta(description="How many requests in how much time.")] = field(
        default_factory=list[RateLimit]
    )
    rate_store: Annotated[RateStore, Meta(description="Where rates are counted.")] = RateStore()
    concurrency: Annotated[
        list[ConcurrencyLimit], Meta(description="How many requests at the same time.")
    ] = field(default_factory=list[ConcurrencyLimit])


class Sessions(Struct, frozen=True):
    """Sessions of legacy clients, and calls that wait for an answer of a modern client."""

    idle_ttl_seconds: Annotated[
        float, Meta(gt=0, description="A session without a request for this long is ended.")
    ] = 3600
    upstream_session_termination_retries: Annotated[
        int,
        Meta(
            ge=0,
            le=5,
            description="How often a session that the server ended is opened anew for one request. 0: never.",
        ),
    ] = 1
    suspended_ttl_seconds: Annotated[
        float,
        Meta(
            gt=0,
            description="How long a call waits for the client's answer to an `input_required`, or for a user "
            "who signs in, before it is given up.",
        ),
    ] = 600
    max_active: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Most sessions open at the same time; one more is refused. `null`: 50,000."),
    ] = None
    max_in_flight_per_session: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Most tool calls that one session may have running. `null`: any."),
    ] = None
    max_total_session_size: Annotated[
        Annotated[int, Meta(ge=1, extra=BYTES)] | None,
        Meta(description="Most bytes of files that one session may keep. `null`: any."),
    ] = None
    max_files_per_session: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="Most files that one session may keep, however small: uploads, artifacts and results "
            "together. `null`: any."
        ),
    ] = 100_000
    tombstone_ttl_seconds: Annotated[
        float,
        Meta(gt=0, description="How long a late request for a file that is gone is told what became of it."),
    ] = 86_400


class Storage(Struct, frozen=True):
    """Where the gateway keeps its files."""

    root: Annotated[
        Path, Meta(description="The data directory. The control socket `mooring.sock` is created in it.")
    ] = Path("data")
    url: Annotated[
        Annotated[str, Meta(pattern=r"^s3://[^/]+")] | None,
        Meta(
            description="Keep files in an object store, `s3://bucket/prefix`. Each gateway needs a prefix of "
            "its own. `null`: in `root`."
        ),
    ] = None
    options: Annotated[
        dict[str, str],
        Meta(
            description="For `url`: `aws_endpoint`, `aws_region`, `aws_access_key_id`, "
            "`aws_secret_access_key`, `allow_http`. Not given: from the environment, as usual there."
        ),
    ] = field(default_factory=dict[str, str])
    max_size: Annotated[
        Annotated[int, Meta(ge=1, extra=BYTES)] | None,
        Meta(description="Most bytes of files in all. `null`: as many as the disk holds."),
    ] = None
    max_server_size: Annotated[
        Annotated[int, Meta(ge=1, extra=BYTES)] | None,
        Meta(description="Most bytes of files of one server. `null`: any."),
    ] = None


class Runtimes(Struct, frozen=True):
    """How servers are run."""

    order: Annotated[
        list[Literal["process", "podman", "docker"]],
        Meta(
            min_length=1,
            description="Which way to try first, where nobody says how a server is run. The first that works "
            "here and fits is taken: an image needs an engine, a command of this machine `process`.",
        ),
    ] = field(default_factory=lambda: ["process", "podman", "docker"])
    npx_image: Annotated[
        str, Meta(min_length=1, description="What an npm package's image is made of: it needs Node and npm.")
    ] = "docker.io/library/node:22-slim"
    uvx_image: Annotated[
        str, Meta(min_length=1, description="What a Python package's image is made of: it needs Python.")
    ] = "docker.io/library/python:3.12-slim"

    @property
    def bases(self) -> dict[Literal["npx", "uvx", "go"], str]:
        """What images of packages are made of."""
        return {"npx": self.npx_image, "uvx": self.uvx_image}


class Trace(Struct, frozen=True):
    """Write what `mooring trace` shows to a file."""

    file: Annotated[
        Path | None, Meta(description="File that gets one JSON line per message. `null`: no file.")
    ] = None
    bytes: Annotated[bool, Meta(description="Also write the messages themselves, with secrets redacted.")] = (
        False
    )


class Upstream(Struct, frozen=True):
    """A server that already runs and is reached over HTTP."""

    url: Annotated[str, Meta(description="Its MCP endpoint: `http://...` or `https://...`.")]
    transport: Annotated[
        UpstreamTransport,
        Meta(description="`auto` finds out; `streamable_http` or `sse` (HTTP+SSE of 2024-11-05) pins it."),
    ] = "auto"
    era: Annotated[
        Era,
        Meta(
            description="`auto` finds out; `legacy` (with `initialize`) or `modern` (2026-07-28 and "
            "later) pins it."
        ),
    ] = "auto"
    headers: Annotated[
        dict[str, str],
        Meta(description="Sent with every request to the server, for example `Authorization`."),
    ] = field(default_factory=dict[str, str])
    forward_headers: Annotated[
        list[str],
        Meta(
            description="Headers of the client's requests that go on to the server, such as `X-Tenant`. "
            "Never those that carry credentials or belong to a connection."
        ),
    ] = field(default_factory=list[str])
    require_headers: Annotated[
        list[str],
        Meta(
            description="Headers that every request of a client must have; one without is refused with 400. "
            "They go on to the server only if `forward_headers` names them too."
        ),
    ] = field(default_factory=list[str])
    auth: Annotated[UpstreamAuth, Meta(description="How we prove to the server who we are.")] = UpstreamAuth()


class Workload(Struct, frozen=True):
    """A server that the gateway starts and stops itself."""

    run: Annotated[
        list[str],
        Meta(
            min_length=1,
            extra=COMMAND,
            description="The command: a list, or a text that is split into words. No shell sees it.",
        ),
    ]
    transport: Annotated[
        Literal["stdio"],
        Meta(description="How the process speaks. `stdio` is the only one of this version."),
    ] = "stdio"
    era: Annotated[
        Era,
        Meta(
            description="`auto` finds out; `legacy` (with `initialize`) or `modern` (2026-07-28 and "
            "later) pins it."
        ),
    ] = "auto"
    env: Annotated[
        dict[str, str],
        Meta(description="Environment variables for the process, besides the few every process gets."),
    ] = field(default_factory=dict[str, str])
    cwd: Annotated[
        Path, Meta(description="Directory the process starts in. Not given: the folder of this file.")
    ] = Path()
    permission_profile: Annotated[
        PermissionProfile | None,
        Meta(
            extra=PROFILE,
            description="What the process may touch, in a sandbox: `none`, `network`, a JSON file, or the "
            "profile itself; see [the sandbox](../guides/sandbox.md). Not given: it runs unsandboxed, with "
            "your rights.",
        ),
    ] = None


class Timeouts(Struct, frozen=True):
    """How long one server may take."""

    connect_seconds: Annotated[
        float,
        Meta(gt=0, description="To accept a connection, or to start and answer the first request."),
    ] = 30
    call_seconds: Annotated[
        float, Meta(gt=0, description="To answer a request. Progress of the call starts it again.")
    ] = 300
    total_seconds: Annotated[
        float, Meta(gt=0, description="To answer a request, however much progress there is.")
    ] = 3600
    idle_stop_seconds: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="A process that nobody used for this long is stopped. `null`: never."),
    ] = 300
    session_idle_seconds: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(
            description="A client's session that was idle for this long ends. Not given: as "
            "`sessions.idle_ttl_seconds` says."
        ),
    ] = None


class Breaker(Struct, frozen=True):
    """When a failing server is left alone for a while."""

    failures: Annotated[int, Meta(ge=1, description="Failures in a row after which calls fail at once.")] = 5
    open_seconds: Annotated[
        float, Meta(gt=0, description="Time until one call is let through as a probe.")
    ] = 10


class Server(Struct, frozen=True):
    """What clients see behind `/mcp/<id>`. Exactly one of `upstream`, `workload` and `run_config`."""

    id: Annotated[
        str,
        Meta(
            pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$",
            description="Its name in URLs and commands: 1 to 64 of `a-z`, `0-9`, `.`, `_`, `-`; unique.",
        ),
    ]
    upstream: Annotated[Upstream | None, Meta(description="A server that already runs.")] = None
    workload: Annotated[Workload | None, Meta(description="A server that the gateway runs.")] = None
    run_config: Annotated[
        dict[str, Any] | None,
        Meta(
            description="A server that the gateway runs, as a RunConfig of ToolHive: a package "
            "(`image: npx://...`), an image, or a URL; see [running servers](../guides/running-servers.md)."
        ),
    ] = None
    share: Annotated[
        Share,
        Meta(
            description="Who shares one connection or process: `global` everybody, `principal` all "
            "sessions of one caller, `client` one client session each, `call` one call each."
        ),
    ] = "client"
    group: Annotated[
        str | None, Meta(description="The group it belongs to, which policies may speak of.")
    ] = None
    tools: Annotated[Tools, Meta(description="Which tools clients see, and how.")] = Tools()
    approvals: Annotated[Approvals, Meta(description="Calls that need a person's yes.")] = Approvals()
    savings: Annotated[Savings, Meta(description="Which words of its tools clients need not read.")] = (
        Savings()
    )
    timeouts: Annotated[Timeouts, Meta(description="How long the server may take.")] = Timeouts()
    breaker: Annotated[Breaker, Meta(description="When a failing server is left alone.")] = Breaker()
    mount_path: Annotated[
        Annotated[str, Meta(pattern=r"^(/[A-Za-z0-9._-]+)+$")] | None,
        Meta(description="Another path at which clients find this server, besides `/mcp/<id>`."),
    ] = None
    adapters: Annotated[list[Adapter], Meta(description="Tools of this server that take or make files.")] = (
        field(default_factory=list[Adapter])
    )
    files: Annotated[ServerFiles, Meta(description="How the server sees our files.")] = ServerFiles()
    results: Annotated[
        ServerResults | None, Meta(description="Another budget for the results of this server.")
    ] = None
    sanitize: Annotated[
        Sanitize | None, Meta(description="In place of `core.sanitize`, for this server.")
    ] = None
    tool_definition_pinning: Annotated[
        Pinning | None, Meta(description="In place of `core.tool_definition_pinning`, for this server.")
    ] = None


class Config(Struct, frozen=True):
    """The whole file."""

    mooring: Annotated[
        Literal[1], Meta(description="Marks the file as Mooring's own format. Always `1`.")
    ] = 1
    listen: Annotated[
        str, Meta(description="`host:port` for clients. `[::1]:7433` for IPv6; port 0 takes a free one.")
    ] = "127.0.0.1:7433"
    public_url: Annotated[
        str | None,
        Meta(description="The address clients use, when it is not the one in `listen`: behind a proxy."),
    ] = None
    tls: Annotated[Tls, Meta(description="Certificate and key for HTTPS.")] = Tls()
    workers: Annotated[int, Meta(ge=1, description="Worker processes. 1 is the only number so far.")] = 1
    trust_proxy_headers: Annotated[
        bool,
        Meta(
            description="Believe `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host`. Only "
            "behind a proxy that sets them itself."
        ),
    ] = False
    cors: Annotated[Cors, Meta(description="Calls from web pages.")] = Cors()
    auth: Annotated[Auth, Meta(description="Who may call.")] = Auth()
    authorization: Annotated[Authorization, Meta(description="What callers may do.")] = Authorization()
    providers: Annotated[
        dict[str, Provider], Meta(description="By a name of yours: where users have accounts.")
    ] = field(default_factory=dict[str, Provider])
    audit: Annotated[Audit, Meta(description="What is written down.")] = Audit()
    telemetry: Annotated[Telemetry, Meta(description="Numbers and traces.")] = Telemetry()
    webhooks: Annotated[Webhooks, Meta(description="Programs that judge or change requests.")] = Webhooks()
    plugins: Annotated[
        list[Plugin], Meta(description="Middlewares that installed packages bring, in this order.")
    ] = field(default_factory=list[Plugin])
    limits: Annotated[Limits, Meta(description="What one peer may cost.")] = Limits()
    sessions: Annotated[Sessions, Meta(description="How long sessions and waiting calls are kept.")] = (
        Sessions()
    )
    uploads: Annotated[Uploads, Meta(description="Files that clients send.")] = Uploads()
    artifacts: Annotated[Artifacts, Meta(description="Files that tools make.")] = Artifacts()
    results: Annotated[Results, Meta(description="Results too big for a model's context.")] = Results()
    core: Annotated[Core, Meta(description="What concerns all servers.")] = Core()
    storage: Annotated[Storage, Meta(description="Where files are kept.")] = Storage()
    runtimes: Annotated[Runtimes, Meta(description="How servers are run.")] = Runtimes()
    trace: Annotated[Trace, Meta(description="Write the conversation to a file.")] = Trace()
    servers: Annotated[list[Server], Meta(description="The servers behind `/mcp/<id>`.")] = field(
        default_factory=list[Server]
    )

    @property
    def host(self) -> str:
        """The host part of `listen`, without the brackets of an IPv6 address."""
        return split_address(self.listen)[0]

    @property
    def port(self) -> int:
        """The port part of `listen`; 0 asks the system for a free one."""
        return split_address(self.listen)[1]

    def wants_files(self, server: Server) -> bool:
        """Whether this server has anything to do with files."""
        return bool(server.adapters) or (server.results or self.results).enabled


def split_address(listen: str) -> tuple[str, int]:
    """`host:port` or `[ipv6]:port` as two values; ValueError says what is wrong with it."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError("must be `host:port`, for example `127.0.0.1:7433`")
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], int(port)
    if not host or ":" in host:
        raise ValueError("must be `host:port`; an IPv6 host stands in brackets, for example `[::1]:7433`")
    return host, int(port)
