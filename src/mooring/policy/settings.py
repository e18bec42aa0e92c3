"""The sections of `mooring.yaml` that belong to the guard; `mooring.config.schema` says where they stand."""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

# A number of bytes, also written as "8Mi" or "10MB".
BYTES = {"unit": "bytes"}
# A list of texts; a single text stands for a list of one.
TEXTS = {"unit": "texts"}
ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


def _algorithms() -> list[str]:
    return list(ALGORITHMS)


Signal = Literal["traces", "metrics"]


def _signals() -> list[Signal]:
    return ["traces", "metrics"]


class Telemetry(Struct, frozen=True):
    """Numbers and traces. Nothing is measured or sent anywhere unless it is switched on here."""

    prometheus: Annotated[bool, Meta(description="Serve `/metrics` for Prometheus.")] = False
    otlp_endpoint: Annotated[
        str | None,
        Meta(
            description="Send traces and metrics to this OTLP collector over HTTP, for example "
            "`http://127.0.0.1:4318`. Needs the extra `mooring[telemetry]`."
        ),
    ] = None
    otlp_headers: Annotated[dict[str, str], Meta(description="Headers for the collector.")] = field(
        default_factory=dict[str, str]
    )
    otlp_signals: Annotated[
        list[Signal], Meta(extra=TEXTS, description="What it gets: `traces`, `metrics`.")
    ] = field(default_factory=_signals)
    service_name: Annotated[str, Meta(description="The name of this gateway in traces.")] = "mooring"
    sampling_rate: Annotated[
        float, Meta(ge=0, le=1, description="Which part of the requests is traced, unless the caller says.")
    ] = 0.1


class Webhook(Struct, frozen=True):
    """A program that is asked about every request."""

    name: Annotated[str, Meta(description="Its name in logs and refusals.")]
    url: Annotated[str, Meta(description="Where it is asked: `https://...`.")]
    timeout_seconds: Annotated[float, Meta(ge=1, le=30, description="How long it may take.")] = 10
    failure_policy: Annotated[
        Literal["fail", "ignore"],
        Meta(description="If it cannot be asked: refuse the request, or go on without it."),
    ] = "fail"
    hmac_secret: Annotated[str | None, Meta(description="Signs what we send, best as `${NAME}`.")] = None
    ca_bundle: Annotated[Path | None, Meta(description="PEM file of authorities to believe.")] = None
    client_cert: Annotated[Path | None, Meta(description="PEM file of our certificate for it.")] = None
    client_key: Annotated[Path | None, Meta(description="PEM file of our key for it.")] = None


class Webhooks(Struct, frozen=True):
    """Programs that judge or change requests. The changing ones are asked first."""

    validating: Annotated[list[Webhook], Meta(description="Asked whether a request may go on.")] = field(
        default_factory=list[Webhook]
    )
    mutating: Annotated[list[Webhook], Meta(description="Asked for changes to a request.")] = field(
        default_factory=list[Webhook]
    )
    insecure_allow_http: Annotated[
        bool, Meta(description="Allow `http://` for a webhook that is not on this machine.")
    ] = False


class Plugin(Struct, frozen=True):
    """A middleware that an installed package brings."""

    name: Annotated[str, Meta(description="The name of its entry point in the group `mooring.middleware`.")]
    settings: Annotated[dict[str, str], Meta(description="What it is told.")] = field(
        default_factory=dict[str, str]
    )
    servers: Annotated[list[str], Meta(description="Only for these servers; patterns too. Empty: all.")] = (
        field(default_factory=list[str])
    )


class Approvals(Struct, frozen=True):
    """Calls that need a person's yes: asked of the client, or given with `mooring approve`."""

    tools: Annotated[list[str], Meta(description="Tools whose every call needs it; patterns too.")] = field(
        default_factory=list[str]
    )
    ttl_seconds: Annotated[float, Meta(gt=0, description="How long a call waits for it.")] = 600


class Pinning(Struct, frozen=True):
    """Tools that change while a session runs. Its first list is what it is held to."""

    mode: Annotated[
        Literal["off", "warn", "block"],
        Meta(description="`warn` says so, in the description and the log; `block` keeps the change out."),
    ] = "warn"
    block_strategy: Annotated[
        Literal["error", "baseline_subset"],
        Meta(description="With `block`: refuse all, or show only the tools that are as they were."),
    ] = "error"
    block_error_session_action: Annotated[
        Literal["invalidate", "keep"],
        Meta(description="With `error`: end the session, so that the client starts a new one, or keep it."),
    ] = "invalidate"


class DefinitionLock(Struct, frozen=True):
    """Tools as somebody approved them, for every session and caller; see `mooring lock`."""

    mode: Annotated[
        Literal["off", "warn", "block"],
        Meta(description="What differs from the lock: is marked (`warn`), or not there (`block`)."),
    ] = "off"
    file: Annotated[Path, Meta(description="The lock file, best kept with the configuration.")] = Path(
        "mooring.lock"
    )


class Sanitize(Struct, frozen=True):
    """Invisible characters, look-alikes and over-long texts in tool definitions."""

    mode: Annotated[
        Literal["off", "report", "strip", "block"],
        Meta(description="`report` logs them, `strip` removes them, `block` hides such tools."),
    ] = "report"
    max_title_chars: Annotated[int, Meta(ge=1, description="Longest title.")] = 256
    max_description_chars: Annotated[int, Meta(ge=1, description="Longest description.")] = 8_000
    max_schema_text_chars: Annotated[int, Meta(ge=1, description="Longest text inside a schema.")] = 2_000
    normalize_unicode: Annotated[
        bool,
        Meta(
            description="Look for letters in a word that look like others; `strip` writes them as those, and "
            "all texts in one form (NFKC)."
        ),
    ] = True
    remove_invisible_characters: Annotated[
        bool, Meta(description="Look for invisible characters at all.")
    ] = True


Per = Literal["all", "principal", "server", "tool", "address"]


def _per_principal() -> list[Per]:
    return ["principal"]


class RateLimit(Struct, frozen=True):
    """So many requests in so much time. Requests of every kind count, unless the limit says otherwise."""

    count: Annotated[int, Meta(ge=1, description="How many requests.")]
    seconds: Annotated[float, Meta(gt=0, description="In how much time.")] = 60
    burst: Annotated[
        int, Meta(ge=0, description="How many at once, before the rest has to wait. 0: `count`.")
    ] = 0
    per: Annotated[
        list[Per],
        Meta(
            extra=TEXTS,
            description="Counted for each of these apart: `principal`, `server`, `tool`, `address`; `all`: "
            "together.",
        ),
    ] = field(default_factory=_per_principal)
    servers: Annotated[list[str], Meta(description="Only for these servers; patterns are allowed.")] = field(
        default_factory=list[str]
    )
    tools: Annotated[
        list[str],
        Meta(description="Only for calls of these tools, by either of their names; patterns too."),
    ] = field(default_factory=list[str])
    methods: Annotated[list[str], Meta(description="Only for these methods; patterns too.")] = field(
        default_factory=list[str]
    )


class ConcurrencyLimit(Struct, frozen=True):
    """So many requests at the same time."""

    count: Annotated[int, Meta(ge=1, description="How many requests.")]
    per: Annotated[list[Per], Meta(extra=TEXTS, description="Counted for each of these apart.")] = field(
        default_factory=_per_principal
    )
    servers: Annotated[list[str], Meta(description="Only for these servers; patterns are allowed.")] = field(
        default_factory=list[str]
    )
    tools: Annotated[
        list[str],
        Meta(description="Only for calls of these tools, by either of their names; patterns too."),
    ] = field(default_factory=list[str])


class RateStore(Struct, frozen=True):
    """Where rates are counted."""

    url: Annotated[
        str | None, Meta(description="`redis://...`, to count together with other gateways. `null`: here.")
    ] = None
    when_unavailable: Annotated[
        Literal["open", "closed"],
        Meta(description="While Redis is away: `open` lets requests through, `closed` refuses them."),
    ] = "closed"


class Audit(Struct, frozen=True):
    """What is written down: one JSON line per event, each tied to the one before, sealed by signatures."""

    enabled: Annotated[bool, Meta(description="Write an audit log.")] = False
    output: Annotated[
        Literal["file", "stdout", "otlp"],
        Meta(
            description="Where it goes: `otlp` is the collector of `telemetry.otlp_endpoint`. Only a file is "
            "sealed and kept, and written before the answer leaves."
        ),
    ] = "file"
    file: Annotated[
        Path | None, Meta(description="The file. Not given: `audit.log` in the data directory.")
    ] = None
    sync: Annotated[
        bool,
        Meta(
            description="Wait for the disk with every event. Otherwise events survive the end of the "
            "process at once, and a power failure after a fifth of a second."
        ),
    ] = False
    rotate_bytes: Annotated[
        int, Meta(ge=4096, extra=BYTES, description="A larger file is continued in a new one.")
    ] = 64 * 1024**2
    keep_files: Annotated[int, Meta(ge=1, description="Finished files to keep.")] = 10
    component: Annotated[str, Meta(description="The name of this gateway in its events.")] = "mooring"
    event_types: Annotated[
        list[str], Meta(description="Only these types of events, such as `mcp_tool_call`. Empty: all.")
    ] = field(default_factory=list[str])
    exclude_event_types: Annotated[list[str], Meta(description="Not these types.")] = field(
        default_factory=list[str]
    )
    include_request_data: Annotated[
        bool, Meta(description="Also the params of requests, secrets blotted out.")
    ] = False
    include_response_data: Annotated[bool, Meta(description="Also the results, secrets blotted out.")] = False
    include_claims: Annotated[
        bool, Meta(description="Also the caller's claims, which `mooring policy simulate` can use.")
    ] = False
    detect_application_errors: Annotated[
        bool, Meta(description="Tell results with `isError` from successful ones.")
    ] = True
    max_data_bytes: Annotated[int, Meta(ge=0, description="Longer params and results are cut to this.")] = (
        1024
    )
    max_delegation_depth: Annotated[
        int, Meta(ge=0, description="How many of those who act for a caller (`act`) are named.")
    ] = 10


class Authorization(Struct, frozen=True):
    """What callers may do: Cedar policies, as ToolHive writes them."""

    type: Annotated[
        Literal["none", "cedarv1"], Meta(description="`none`: everything that is not hidden is allowed.")
    ] = "none"
    policies: Annotated[
        list[Path],
        Meta(
            extra=TEXTS,
            description="Files of policies: Cedar text, or ToolHive's file in JSON or YAML. They are read "
            "again when they change.",
        ),
    ] = field(default_factory=list[Path])
    entities: Annotated[Path | None, Meta(description="File of further entities, as Cedar's JSON.")] = None
    group_claim: Annotated[
        str | None, Meta(description="The claim that lists a caller's groups: `principal in THVGroup::...`.")
    ] = "groups"
    role_claim: Annotated[str | None, Meta(description="The claim that lists a caller's roles, too.")] = None


class ToolAnnotations(Struct, frozen=True):
    """Hints about a tool, in the words of the protocol; `null` leaves the server's own."""

    title: Annotated[str | None, Meta(description="Its name for people.")] = None
    readOnlyHint: Annotated[bool | None, Meta(description="It changes nothing.")] = None  # noqa: N815
    destructiveHint: Annotated[bool | None, Meta(description="It may destroy something.")] = None  # noqa: N815
    idempotentHint: Annotated[bool | None, Meta(description="Twice is the same as once.")] = None  # noqa: N815
    openWorldHint: Annotated[bool | None, Meta(description="It reaches out into the world.")] = None  # noqa: N815


class ToolOverride(Struct, frozen=True):
    """How one tool is presented. What is `null` stays as the server gives it."""

    name: Annotated[str | None, Meta(description="The name that clients see and call.")] = None
    title: Annotated[str | None, Meta(description="Its name for people.")] = None
    description: Annotated[str | None, Meta(description="What clients and models read about it.")] = None
    annotations: Annotated[ToolAnnotations, Meta(description="Hints to set.")] = ToolAnnotations()


class Tools(Struct, frozen=True):
    """Which tools of the server clients see, and how. Names are the server's own or the ones given here;
    patterns may use `*`, `?` and `[...]`."""

    allow: Annotated[
        list[str], Meta(description="Only these; also judged are tools that appear later. Empty: all.")
    ] = field(default_factory=list[str])
    deny: Annotated[list[str], Meta(description="Not these, whatever `allow` says.")] = field(
        default_factory=list[str]
    )
    deny_regex: Annotated[
        list[str], Meta(description="Not tools whose whole name matches one of these regular expressions.")
    ] = field(default_factory=list[str])
    override: Annotated[
        dict[str, ToolOverride], Meta(description="By the server's own name of a tool: how it is presented.")
    ] = field(default_factory=dict[str, ToolOverride])


class Auth(Struct, frozen=True):
    """Who may call. `api_key`: keys made with `mooring key create`; `oidc`: tokens of an OpenID provider."""

    mode: Annotated[
        Literal["none", "api_key", "oidc", "shared_token"],
        Meta(
            description="How callers prove who they are. `none`: everybody is `anonymous`; `shared_token`: "
            "all show the same token and are the same to us."
        ),
    ] = "none"
    insecure_allow_anonymous: Annotated[
        bool,
        Meta(
            description="Allow listening on an address that other machines can reach although nobody is "
            "authenticated."
        ),
    ] = False
    issuer: Annotated[
        str | None, Meta(description="`oidc`: the provider's address, exactly as its tokens name it.")
    ] = None
    audience: Annotated[
        list[str],
        Meta(
            extra=TEXTS,
            description="`oidc`: audiences to accept. Empty: only the address of the very server that is "
            "called, `<public_url>/mcp/<id>`.",
        ),
    ] = field(default_factory=list[str])
    jwks_url: Annotated[
        str | None, Meta(description="`oidc`: where the provider's keys are. Not given: it is asked.")
    ] = None
    jwks_token_file: Annotated[
        Path | None, Meta(description="`oidc`: file with a token that the provider wants for its keys.")
    ] = None
    ca_bundle: Annotated[
        Path | None,
        Meta(description="`oidc`: PEM file of authorities to believe besides the system's own."),
    ] = None
    introspection_url: Annotated[
        str | None,
        Meta(description="`oidc`: where tokens that cannot be checked here are asked about (RFC 7662)."),
    ] = None
    client_id: Annotated[str | None, Meta(description="Our name at the introspection endpoint.")] = None
    client_secret: Annotated[str | None, Meta(description="Our secret there, best as `${NAME}`.")] = None
    algorithms: Annotated[
        list[str], Meta(description="Signature algorithms to accept. Never `none`, never a shared secret.")
    ] = field(default_factory=_algorithms)
    clock_skew_seconds: Annotated[
        float, Meta(ge=0, le=600, description="How far the provider's clock may be off.")
    ] = 60
    required_scopes: Annotated[
        list[str], Meta(extra=TEXTS, description="Scopes that every caller must have; else 403.")
    ] = field(default_factory=list[str])
    scopes_supported: Annotated[
        list[str], Meta(extra=TEXTS, description="Further scopes to name in the metadata for clients.")
    ] = field(default_factory=list[str])
    insecure_allow_http: Annotated[
        bool, Meta(description="Allow `http://` for a provider that is not on this machine.")
    ] = False
    keys_file: Annotated[
        Path | None,
        Meta(description="`api_key`: file of hashed keys. Not given: `keys.json` in the data directory."),
    ] = None
    links_need_credentials: Annotated[
        bool,
        Meta(
            description="Signed links for uploads and downloads also need the credential of whoever they "
            "were made for. `false`: who has the link may use it."
        ),
    ] = False
    shared_token: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(description="`shared_token`: the token, best as `${NAME}`."),
    ] = None
    shared_token_header: Annotated[
        Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]+$")] | None,
        Meta(description="`shared_token`: a header that holds it, besides `Authorization: Bearer`."),
    ] = None
    max_failures_per_minute: Annotated[
        int, Meta(ge=1, description="Failed attempts of one address per minute; then 429.")
    ] = 30
