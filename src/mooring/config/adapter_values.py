"""What the values in a Remote MCP Adapter's file may be, also of keys that mean nothing here.

What comes from an environment variable is a text at first, and becomes what its key wants.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, cast

from mooring.config.problems import KeyPath
from mooring.config.source import Document

Json = dict[str, Any]
_SIZE: Final = re.compile(r"\d+(\.\d+)?\s*([KMGT]i?)?B?", re.IGNORECASE)


def check(document: Document) -> bool:
    """Whether every value is one that its key can have; each one that is not is reported."""
    before = len(document.problems)
    _walk(document, cast("Json", document.value), (), "")
    return len(document.problems) == before


def _walk(document: Document, container: Any, path: KeyPath, name: str) -> None:
    entries: list[tuple[Any, Any]] = (
        list(cast("Json", container).items())
        if isinstance(container, dict)
        else list(enumerate(cast("list[Any]", container)))
    )
    for key, value in entries:
        here = (*path, key)
        dotted = f"{name}[]" if isinstance(container, list) else f"{name}.{key}".lstrip(".")
        if isinstance(value, str) and here in document.from_environment:
            value = _plain(value, _VALUES.get(dotted))  # noqa: PLW2901
            if not isinstance(value, str):  # a number or a flag is no secret, and reads as if it stood there
                container[key] = value
                document.from_environment.discard(here)
        wanted = None if value is None else _wrong(dotted, value)
        if wanted is not None:
            is_secret = here in document.from_environment
            document.report(here, f"must be {wanted}, not {_shown(value, is_secret=is_secret)}")
        elif isinstance(value, (dict, list)):
            _walk(document, value, here, dotted)


def _shown(value: Any, *, is_secret: bool) -> str:
    if is_secret:
        return "what the environment variable holds"
    if isinstance(value, (dict, list)):
        return "a section" if isinstance(value, dict) else "a list"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _wrong(dotted: str, value: Any) -> str | None:
    """What this key wants, if the value is none of that."""
    kind = _VALUES.get(dotted)
    if kind is not None:
        return None if kind[1](value) else kind[0]
    if f"{dotted}[]" in _BRANCHES:
        return None if isinstance(value, list) else "a list"
    if dotted in _BRANCHES and not isinstance(value, dict):
        return "a section with keys"
    return None


Kind = tuple[str, Callable[[Any], bool]]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _whole(least: int) -> Kind:
    return f"a whole number from {least}", lambda value: _is_whole(value) and value >= least


def _one_of(*words: str) -> Kind:
    return " or ".join(f"`{word}`" for word in words), lambda value: value in words


_FLAG: Final[Kind] = "`true` or `false`", lambda value: isinstance(value, bool)
_TEXT: Final[Kind] = "a text", lambda value: isinstance(value, str)
_TEXTS: Final[Kind] = (
    "a list of texts",
    lambda value: isinstance(value, list) and all(isinstance(one, str) for one in cast("list[Any]", value)),
)
_COUNT: Final = _whole(1)
_FROM_ZERO: Final = _whole(0)
_SIZES: Final[Kind] = (
    "a size such as `10Mi`",
    lambda value: _is_whole(value) or (isinstance(value, str) and _SIZE.fullmatch(value) is not None),
)


def _plain(text: str, kind: Kind | None) -> Any:
    """What a variable holds, as its key wants it."""
    if kind is _FLAG and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind is not _TEXT and re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    return text


_DEFAULTS: Final = {"tool_call_timeout_seconds": _COUNT, "allow_raw_output": _FLAG}
_POLICIES: Final[dict[str, dict[str, Kind]]] = {
    "tool_description_policy": {
        "mode": _one_of("preserve", "truncate", "strip"),
        "max_tool_description_chars": _COUNT,
        "max_schema_description_chars": _COUNT,
    },
    "tool_metadata_sanitization": {
        "mode": _one_of("off", "sanitize", "block"),
        "normalize_unicode": _FLAG,
        "remove_invisible_characters": _FLAG,
        "max_tool_title_chars": _COUNT,
        "max_tool_description_chars": _COUNT,
        "max_schema_text_chars": _COUNT,
    },
    "tool_definition_pinning": {
        "mode": _one_of("off", "warn", "block"),
        "block_strategy": _one_of("error", "baseline_subset"),
        "block_error_session_action": _one_of("invalidate", "keep"),
    },
    "upstream_ping": {
        "enabled": _FLAG,
        "interval_seconds": _COUNT,
        "timeout_seconds": _COUNT,
        "failure_threshold": _COUNT,
        "open_cooldown_seconds": _COUNT,
        "half_open_probe_allowance": _COUNT,
    },
}
_SECTIONS: Final[dict[str, dict[str, Kind]]] = {
    "core": {
        "host": _TEXT,
        "port": _FROM_ZERO,
        "log_level": _one_of("debug", "info", "warning", "error", "critical"),
        "max_start_wait_seconds": _FROM_ZERO,
        "cleanup_interval_seconds": _COUNT,
        "public_base_url": _TEXT,
        "allow_artifacts_download": _FLAG,
        "code_mode_enabled": _FLAG,
        "shorten_descriptions": _FLAG,
        "short_description_max_tokens": _COUNT,
        "upload_path": _TEXT,
        "upstream_metadata_cache_ttl_seconds": _FROM_ZERO,
    },
    "core.auth": {
        "enabled": _FLAG,
        "header_name": _TEXT,
        "token": _TEXT,
        "signed_upload_ttl_seconds": _COUNT,
        "signing_secret": _TEXT,
    },
    "core.cors": {
        "enabled": _FLAG,
        "allowed_origins": _TEXTS,
        "allowed_methods": _TEXTS,
        "allowed_headers": _TEXTS,
        "allow_credentials": _FLAG,
    },
    "core.defaults": _DEFAULTS,
    **{f"core.{name}": values for name, values in _POLICIES.items()},
    "telemetry": {
        "enabled": _FLAG,
        "transport": _one_of("grpc", "http"),
        "endpoint": _TEXT,
        "service_name": _TEXT,
        "insecure": _FLAG,
        "drop_on_queue_full": _FLAG,
        "flush_on_shutdown": _FLAG,
        "flush_on_terminate": _FLAG,
        "emit_logs": _FLAG,
    },
    "state_persistence": {
        "type": _one_of("disk", "memory", "redis"),
        "refresh_on_startup": _FLAG,
        "snapshot_interval_seconds": _COUNT,
        "unavailable_policy": _one_of("fail_closed", "exit", "fallback_memory"),
    },
    "state_persistence.reconciliation": {"mode": _one_of("disabled", "if_empty", "always")},
    "state_persistence.disk": {"local_path": _TEXT},
    "state_persistence.disk.wal": {"enabled": _FLAG},
    "state_persistence.redis": {"host": _TEXT, "port": _COUNT, "db": _FROM_ZERO, "tls_insecure": _FLAG},
    "storage": {
        "root": _TEXT,
        "max_size": _SIZES,
        "atomic_writes": _FLAG,
        "lock_mode": _one_of("none", "process", "file", "redis", "auto"),
        "orphan_sweeper_enabled": _FLAG,
        "orphan_sweeper_grace_seconds": _FROM_ZERO,
        "artifact_locator_policy": _one_of("storage_only", "allow_configured_roots"),
        "artifact_locator_allowed_roots": _TEXTS,
    },
    "sessions": {
        "max_active": _COUNT,
        "max_in_flight_per_session": _COUNT,
        "idle_ttl_seconds": _COUNT,
        "allow_revival": _FLAG,
        "tombstone_ttl_seconds": _COUNT,
        "upstream_session_termination_retries": _FROM_ZERO,
        "max_total_session_size": _SIZES,
        "eviction_policy": _one_of("lru_uploads_then_artifacts", "lru_artifacts_then_uploads"),
    },
    "uploads": {
        "enabled": _FLAG,
        "max_file_bytes": _SIZES,
        "ttl_seconds": _COUNT,
        "require_sha256": _FLAG,
        "uri_scheme": _TEXT,
    },
    "artifacts": {
        "enabled": _FLAG,
        "ttl_seconds": _COUNT,
        "max_per_session": _COUNT,
        "expose_as_resources": _FLAG,
        "uri_scheme": _TEXT,
    },
    "servers[]": {
        "id": _TEXT,
        "mount_path": _TEXT,
        "code_mode_enabled": _FLAG,
        "shorten_descriptions": _FLAG,
        "short_description_max_tokens": _COUNT,
        "disabled_tools": _TEXTS,
    },
    **{f"servers[].{name}": values for name, values in _POLICIES.items()},
    "servers[].tool_defaults": _DEFAULTS,
    "servers[].upstream": {
        "url": _TEXT,
        "transport": _one_of("streamable_http", "sse"),
        "insecure_tls": _FLAG,
    },
    "servers[].upstream.client_headers": {"required": _TEXTS, "passthrough": _TEXTS},
    "servers[].adapters[]": {
        "type": _one_of("upload_consumer", "artifact_producer"),
        "tools": _TEXTS,
        "file_path_argument": _TEXT,
        "uri_scheme": _TEXT,
        "uri_prefix": _FLAG,
        "output_path_argument": _TEXT,
        "persist": _FLAG,
        "expose_as_resource": _FLAG,
        "allow_raw_output": _FLAG,
        "include_raw_output": _FLAG,
    },
    "servers[].adapters[].overrides": _DEFAULTS,
    "servers[].adapters[].output_locator": {
        "mode": _one_of("none", "regex", "structured", "embedded"),
        "output_path_key": _TEXT,
        "output_path_regexes": _TEXTS,
    },
}
_VALUES: Final = {
    f"{section}.{key}": kind for section, values in _SECTIONS.items() for key, kind in values.items()
}
_BRANCHES: Final = frozenset(_SECTIONS)
