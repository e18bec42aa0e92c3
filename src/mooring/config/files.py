"""The sections of `mooring.yaml` about files: uploads, artifacts, results, and the adapters of a server."""

from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from mooring.config.units import BYTES, TEXTS
from mooring.policy.settings import DefinitionLock, Pinning, Sanitize

Delivery = Literal["auto", "path", "file_uri", "base64", "data_uri", "url"]


class Uploads(Struct, frozen=True):
    """Files that clients send, for tools that take files."""

    enabled: Annotated[
        bool,
        Meta(description="Offer `<server>_get_upload_url` on servers with an `upload_consumer`."),
    ] = True
    max_file_bytes: Annotated[int, Meta(ge=1, extra=BYTES, description="Largest single file.")] = 50 * 1024**2
    path: Annotated[
        str, Meta(pattern=r"^(/[A-Za-z0-9._-]+)+$", description="Where uploads go: `<path>/<server>`.")
    ] = "/upload"
    max_files: Annotated[int, Meta(ge=1, description="Most files in one multipart request.")] = 100
    ttl_seconds: Annotated[
        float, Meta(gt=0, description="How long an upload is kept after it was last used.")
    ] = 600
    link_ttl_seconds: Annotated[float, Meta(gt=0, description="How long an upload URL works.")] = 600
    require_sha256: Annotated[bool, Meta(description="Refuse files that come without their SHA-256.")] = False
    import_hosts: Annotated[
        list[str],
        Meta(
            description="Hosts from which a file may be imported by URL: `files.example.com`, or "
            "`*.example.com` for all below. Empty: no import."
        ),
    ] = field(default_factory=list[str])


class Artifacts(Struct, frozen=True):
    """Files that tools make."""

    enabled: Annotated[
        bool, Meta(description="Capture what `artifact_producer` tools make. `false`: nothing is kept.")
    ] = True
    max_file_bytes: Annotated[int, Meta(ge=1, extra=BYTES, description="Largest single artifact.")] = (
        256 * 1024**2
    )
    ttl_seconds: Annotated[
        float, Meta(gt=0, description="How long an artifact is kept after it was last used.")
    ] = 3600
    max_per_session: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="Most artifacts of one session. `null`: any.")
    ] = None
    expose_as_resources: Annotated[
        bool, Meta(description="List artifacts in `resources/list` and let clients read them.")
    ] = True


class ResultBudget(Struct, frozen=True):
    """How large the results of one tool may be. Nothing given: as large as they are."""

    max_inline_bytes: Annotated[
        Annotated[int, Meta(ge=256, extra=BYTES)] | None, Meta(description="In bytes. `null`: any.")
    ] = None
    max_inline_tokens: Annotated[
        Annotated[int, Meta(ge=64)] | None, Meta(description="In tokens. `null`: any.")
    ] = None


class ResultBudgets(Struct, frozen=True):
    """Which results are too big."""

    max_inline_bytes: Annotated[
        Annotated[int, Meta(ge=256, extra=BYTES)] | None,
        Meta(description="A larger result is replaced. Images count by their pixels. `null`: never."),
    ] = None
    max_inline_tokens: Annotated[
        Annotated[int, Meta(ge=64)] | None,
        Meta(description="The same in tokens, counted as `mooring tokens` does. `null`: never."),
    ] = None
    tools: Annotated[list[str], Meta(description="Only results of these tools. Empty: of all.")] = field(
        default_factory=list[str]
    )
    by_tool: Annotated[
        dict[str, ResultBudget], Meta(description="By the server's name of a tool: another budget for it.")
    ] = field(default_factory=dict[str, ResultBudget])

    @property
    def enabled(self) -> bool:
        budgets = (self, *self.by_tool.values())
        return any(b.max_inline_bytes is not None or b.max_inline_tokens is not None for b in budgets)


class Results(ResultBudgets, frozen=True):
    """Results that are too big for a model's context: kept, and replaced by a preview and a handle."""

    preview_bytes: Annotated[
        int, Meta(ge=0, extra=BYTES, description="How much of the beginning is shown.")
    ] = 2048
    ttl_seconds: Annotated[
        float, Meta(gt=0, description="How long a result is kept after it was last used.")
    ] = 3600
    search_seconds: Annotated[
        float, Meta(gt=0, description="How long a search or a query in a result may take.")
    ] = 5


class ServerResults(ResultBudgets, frozen=True):
    """The results of one server: its budgets in place of those in `results`, and what else differs."""

    preview_bytes: Annotated[
        Annotated[int, Meta(ge=0, extra=BYTES)] | None,
        Meta(description="How much of the beginning is shown. Not given: as `results` says."),
    ] = None
    ttl_seconds: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="How long a result is kept after it was last used. Not given: as `results` says."),
    ] = None
    search_seconds: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="How long a search or a query may take. Not given: as `results` says."),
    ] = None


class Core(Struct, frozen=True):
    """What concerns all servers."""

    allow_artifacts_download: Annotated[
        bool,
        Meta(description="Give every artifact a signed download link, for whoever gets to see it."),
    ] = False
    tool_definition_pinning: Annotated[
        Pinning, Meta(description="Tools that change while a session runs.")
    ] = Pinning()
    tool_definition_lock: Annotated[DefinitionLock, Meta(description="Tools as they were approved.")] = (
        DefinitionLock()
    )
    sanitize: Annotated[Sanitize, Meta(description="Suspicious texts in tool definitions.")] = Sanitize()


class Locator(Struct, frozen=True):
    """Where in a tool's result the file is named, when it was not written to the path we gave."""

    mode: Annotated[
        Literal["none", "regex", "structured", "embedded"],
        Meta(
            description="`regex` finds paths in text; `structured` reads a key of the structured content; "
            "`embedded` takes images, audio, blobs and `data:` URIs; `none` looks nowhere."
        ),
    ] = "none"
    output_path_key: Annotated[
        str | None, Meta(description="For `structured`: the dotted key, such as `files[*].path`.")
    ] = None
    output_path_regexes: Annotated[
        list[str],
        Meta(description="For `regex`: patterns; group 1, or the whole match, is the path. Empty: any path."),
    ] = field(default_factory=list[str])


class Adapter(Struct, frozen=True):
    """What to do with the files of some tools."""

    type: Annotated[
        Literal["upload_consumer", "artifact_producer"],
        Meta(description="`upload_consumer`: the tools take files. `artifact_producer`: they make files."),
    ]
    tools: Annotated[list[str], Meta(min_length=1, description="The tools' names.")]
    file_path_argument: Annotated[
        list[str],
        Meta(
            extra=TEXTS,
            description="`upload_consumer`: the argument that takes a file, or several: `path`, "
            "`options.source`, `items[*].path`.",
        ),
    ] = field(default_factory=list[str])
    delivery: Annotated[
        Delivery,
        Meta(
            description="`upload_consumer`: what the tool gets in place of a handle: a `path`, a `file_uri`, "
            "the bytes as `base64` or `data_uri`, or a `url` that works once. `auto`: a path where the "
            "server can see our files, else a URL."
        ),
    ] = "auto"
    uri_prefix: Annotated[
        bool | None, Meta(description="`true` is another way to say `delivery: file_uri`.")
    ] = None
    accept_other_values: Annotated[
        bool, Meta(description="`upload_consumer`: let values that are no handles pass as they are.")
    ] = False
    output_path_argument: Annotated[
        str | None,
        Meta(description="`artifact_producer`: the argument that takes the path to write to; we fill it in."),
    ] = None
    output_locator: Annotated[
        Locator, Meta(description="`artifact_producer`: where else to look for what was made.")
    ] = Locator()
    persist: Annotated[
        bool, Meta(description="`artifact_producer`: keep what was made. `false`: only show it, if at all.")
    ] = True
    expose_as_resource: Annotated[
        bool, Meta(description="`artifact_producer`: list the artifacts among the server's resources.")
    ] = True
    allow_raw_output: Annotated[
        bool, Meta(description="`artifact_producer`: also put the bytes into the result.")
    ] = False


class ServerFiles(Struct, frozen=True):
    """How a server sees the files that we hand to it."""

    shared_directory: Annotated[
        Path | None,
        Meta(description="A folder that both we and the server can reach. Not given: one in our own data."),
    ] = None
    mounted_at: Annotated[
        str | None,
        Meta(
            description="The path of that folder as the server sees it, if it is another. In a sandbox: "
            "where the files of the session are, `/files` if not given."
        ),
    ] = None
    reachable: Annotated[
        bool | None,
        Meta(
            description="Whether the server can see that folder at all. Not given: processes that we start "
            "and servers on this machine can."
        ),
    ] = None
