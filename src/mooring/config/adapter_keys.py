"""The keys of a Remote MCP Adapter's file: which of ours each is, which guard something, which mean nothing
here."""

from __future__ import annotations

from typing import Any, Final, cast

from mooring.config.problems import KeyPath

SHARED: Final = "/data/shared"
"""Its default for the folder that it shares with servers."""
STATE: Final = "state_persistence.disk.local_path"
"""The key for the file that its state is in."""
FOR_EVER_SECONDS: Final = 10 * 365 * 86_400
DEFAULTS: Final[dict[KeyPath, Any]] = {
    ("uploads", "max_file_bytes"): "10Mi",
    ("uploads", "ttl_seconds"): 120,
    ("uploads", "link_ttl_seconds"): 120,
    ("artifacts", "ttl_seconds"): 600,
    ("sessions", "idle_ttl_seconds"): FOR_EVER_SECONDS,
}
MOVED: Final[dict[KeyPath, KeyPath]] = {
    ("core", "public_base_url"): ("public_url",),
    ("core", "allow_artifacts_download"): ("core", "allow_artifacts_download"),
    ("core", "tool_definition_pinning"): ("core", "tool_definition_pinning"),
    ("core", "upload_path"): ("uploads", "path"),
    ("core", "auth", "signed_upload_ttl_seconds"): ("uploads", "link_ttl_seconds"),
    **{
        (section, key): (section, key)
        for section, keys in {
            "uploads": ("enabled", "max_file_bytes", "ttl_seconds", "require_sha256"),
            "artifacts": ("enabled", "ttl_seconds", "max_per_session", "expose_as_resources"),
            "storage": ("max_size",),
            "sessions": (
                "idle_ttl_seconds",
                "max_active",
                "max_in_flight_per_session",
                "max_total_session_size",
                "tombstone_ttl_seconds",
                "upstream_session_termination_retries",
            ),
        }.items()
        for key in keys
    },
}
"""Where a key of theirs goes."""
SANITIZING: Final[dict[str, tuple[str, Any]]] = {
    "mode": ("mode", "sanitize"),
    "normalize_unicode": ("normalize_unicode", True),
    "remove_invisible_characters": ("remove_invisible_characters", True),
    "max_tool_title_chars": ("max_title_chars", 256),
    "max_tool_description_chars": ("max_description_chars", 2000),
    "max_schema_text_chars": ("max_schema_text_chars", 1000),
}
"""Their key -> our key, and their default."""
SANITIZING_MODES: Final = {"sanitize": "strip", "off": "off", "block": "block"}
PINNING: Final = ("mode", "block_strategy", "block_error_session_action")
BREAKER: Final = {"failure_threshold": "failures", "open_cooldown_seconds": "open_seconds"}
DESCRIPTIONS: Final = ("mode", "max_tool_description_chars", "max_schema_description_chars")
PING: Final = (
    "enabled", "interval_seconds", "timeout_seconds", "failure_threshold", "open_cooldown_seconds",
    "half_open_probe_allowance",
)  # fmt: skip
FIGURES: Final = ("enabled", "transport", "endpoint", "insecure", "headers", "service_name")
"""What of its telemetry is read together."""
CORS: Final[dict[str, list[str]]] = {
    "allowed_origins": [],
    "allowed_methods": ["POST", "GET", "OPTIONS"],
    "allowed_headers": ["*"],
}
"""Its defaults."""
KNOWN: Final[dict[KeyPath, tuple[str, ...]]] = {
    ("telemetry",): (
        "logs_endpoint", "export_interval_seconds", "export_timeout_seconds", "max_queue_size",
        "queue_batch_size", "periodic_flush_seconds", "shutdown_drain_timeout_seconds", "drop_on_queue_full",
        "flush_on_shutdown", "flush_on_terminate", "emit_logs", "log_batch_max_queue_size",
        "log_batch_max_export_batch_size", "log_batch_schedule_delay_millis",
        "log_batch_export_timeout_millis", "service_namespace",
    ),
    ("state_persistence",): (
        "type", "refresh_on_startup", "snapshot_interval_seconds", "unavailable_policy", "reconciliation",
        "disk", "redis",
    ),
    ("state_persistence", "reconciliation"): ("mode", "legacy_server_id"),
    ("state_persistence", "disk"): ("wal",),
    ("state_persistence", "disk", "wal"): ("enabled",),
    ("state_persistence", "redis"): (
        "host", "port", "db", "username", "password", "tls_insecure", "key_base", "ping_seconds",
    ),
    ("storage",): (
        "atomic_writes", "lock_mode", "orphan_sweeper_enabled", "orphan_sweeper_grace_seconds",
        "artifact_locator_policy", "artifact_locator_allowed_roots",
    ),
    ("sessions",): ("allow_revival", "eviction_policy"),
    ("uploads",): ("uri_scheme",),
    ("artifacts",): ("uri_scheme",),
    ("core",): (
        "log_level", "max_start_wait_seconds", "cleanup_interval_seconds", "code_mode_enabled",
        "shorten_descriptions", "short_description_max_tokens", "upstream_metadata_cache_ttl_seconds",
    ),
    ("core", "auth"): ("signing_secret",),
    ("core", "tool_description_policy"): ("max_schema_description_chars",),
    ("core", "upstream_ping"): tuple(key for key in PING if key not in BREAKER),
    ("core", "cors"): ("allow_credentials",),
}  # fmt: skip
"""What has no counterpart and guards nothing: named in one note."""
READ_APART: Final[dict[KeyPath, tuple[str, ...]]] = {
    ("core",): (
        "host", "port", "auth", "cors", "defaults", "tool_metadata_sanitization", "tool_description_policy",
        "upstream_ping",
    ),
    ("core", "auth"): ("enabled", "header_name", "token"),
    ("core", "cors"): ("enabled", *CORS),
    ("core", "defaults"): ("tool_call_timeout_seconds", "allow_raw_output"),
    ("core", "tool_metadata_sanitization"): tuple(SANITIZING),
    ("core", "tool_description_policy"): ("mode", "max_tool_description_chars"),
    ("core", "upstream_ping"): tuple(BREAKER),
    ("telemetry",): FIGURES,
    ("storage",): ("root",),
    ("state_persistence", "disk"): ("local_path",),
}  # fmt: skip
"""What is read together with other keys."""
SECTIONS: Final = (
    "core", "telemetry", "state_persistence", "storage", "sessions", "uploads", "artifacts",
)  # fmt: skip
ADAPTER: Final = (
    "type", "tools", "file_path_argument", "uri_prefix", "output_path_argument", "output_locator", "persist",
    "expose_as_resource", "allow_raw_output",
)  # fmt: skip
IGNORED_IN_SERVER: Final = ("code_mode_enabled", "shorten_descriptions", "short_description_max_tokens")


def is_adapter(value: object) -> bool:
    """Whether these are the contents of such a file."""
    if not isinstance(value, dict) or "mooring" in value:
        return False
    servers = cast("dict[str, Any]", value).get("servers")
    entries = cast("list[Any]", servers) if isinstance(servers, list) else []
    return any(isinstance(entry, dict) and "mount_path" in entry for entry in entries)
