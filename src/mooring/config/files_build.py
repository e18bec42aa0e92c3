"""From the sections about files to what runs: the store, the links, and the adapters of each server."""

from __future__ import annotations

import re
from collections.abc import Callable

from mooring.config import files as settings
from mooring.config.files_sight import Sight, share_of, sight_of
from mooring.config.guard_rules import tool_rules
from mooring.config.own_items import own_items
from mooring.config.schema import Config, Server
from mooring.files import adapters, argument_paths
from mooring.files.budgets import Budget, ResultRules
from mooring.files.database import Database
from mooring.files.handles import Kind
from mooring.files.links import Links
from mooring.files.local_storage import LocalStorage
from mooring.files.middleware import FileAdapters
from mooring.files.producing import ProducerRules
from mooring.files.quotas import Quotas
from mooring.files.scopes import Scopes
from mooring.files.server_files import ServerFiles
from mooring.files.service import FileService
from mooring.files.storage import Storage
from mooring.files.store import FileStore, KeepingRule, StoreRules
from mooring.files.upload_tool import UploadRules
from mooring.files.views import Reach
from mooring.transports.sealing import Seal


def service_for(config: Config, seal: Seal, key: bytes) -> FileService:
    """Everything about files of one gateway."""
    folder = config.storage.root / "files"
    store = FileStore(Database(folder / "state.sqlite3"), _storage(config), _quotas(config), _rules(config))
    links = Links(seal, key, config.uploads.path)
    return FileService(store, links, Scopes(key), folder / "views", config.sessions.idle_ttl_seconds)


def adapters_for(service: FileService, config: Config, server: Server) -> FileAdapters:
    """The middleware of a server that has something to do with files."""
    return service.adapters_for(
        ServerFiles(
            id=server.id,
            tools=adapters.by_tool(_adapter(server, entry) for entry in server.adapters),
            uploads=UploadRules(
                enabled=config.uploads.enabled,
                max_file_bytes=config.uploads.max_file_bytes,
                max_files=config.uploads.max_files,
                link_ttl_seconds=config.uploads.link_ttl_seconds,
                require_sha256=config.uploads.require_sha256,
                import_hosts=tuple(config.uploads.import_hosts),
            ),
            artifacts=ProducerRules(
                expose_as_resources=config.artifacts.expose_as_resources,
                downloads=config.core.allow_artifacts_download,
            ),
            artifacts_enabled=config.artifacts.enabled,
            results=_results(config, server),
            reach=_reach(server),
            one_child_per_scope=sight_of(server) in (Sight.MACHINE, Sight.VIEW),
            one_child_per_call=share_of(server) == "call",
            shown=shown_by(config, server),
        ),
        server.files.shared_directory,
        server.files.mounted_at,
    )


def shown_by(config: Config, server: Server) -> Callable[[str], str | None]:
    """What clients call the tools of a server; None: they do not see it."""
    return tool_rules(server.tools, own_items(config, server)).shown


def _reach(server: Server) -> Reach:
    if server.files.shared_directory is not None:
        return Reach.SHARED
    return Reach.BOUND if sight_of(server) is Sight.VIEW else Reach.OURS


def _adapter(server: Server, entry: settings.Adapter) -> adapters.Adapter:
    tools = tuple(entry.tools)
    if entry.type == "upload_consumer":
        paths = tuple(argument_paths.parse(text) for text in entry.file_path_argument)
        return adapters.Adapter(
            tools, adapters.Consumer(paths, _delivery(server, entry), entry.accept_other_values)
        )
    output = entry.output_path_argument
    return adapters.Adapter(
        tools,
        adapters.Producer(
            output_argument=None if output is None else argument_paths.parse(output),
            locator=_locator(entry.output_locator),
            persist=entry.persist,
            expose=entry.expose_as_resource,
            raw_output=entry.allow_raw_output,
        ),
    )


def _delivery(server: Server, entry: settings.Adapter) -> adapters.Delivery:
    if entry.delivery != "auto":
        return adapters.Delivery(entry.delivery)
    if entry.uri_prefix:
        return adapters.Delivery.FILE_URI
    return adapters.Delivery.URL if sight_of(server) is Sight.NOTHING else adapters.Delivery.PATH


def _locator(entry: settings.Locator) -> adapters.Locator:
    return adapters.Locator(
        adapters.LocatorMode(entry.mode),
        None if entry.output_path_key is None else argument_paths.parse(entry.output_path_key),
        tuple(re.compile(text) for text in entry.output_path_regexes) or adapters.DEFAULT_REGEXES,
    )


def _results(config: Config, server: Server) -> ResultRules:
    budgets = server.results or config.results
    own, common = server.results or settings.ServerResults(), config.results
    return ResultRules(
        budget=Budget(budgets.max_inline_bytes, budgets.max_inline_tokens),
        by_tool={
            name: Budget(budget.max_inline_bytes, budget.max_inline_tokens)
            for name, budget in budgets.by_tool.items()
        },
        preview_bytes=common.preview_bytes if own.preview_bytes is None else own.preview_bytes,
        search_seconds=own.search_seconds or common.search_seconds,
        ttl_seconds=own.ttl_seconds or common.ttl_seconds,
        tools=frozenset(budgets.tools),
    )


def _storage(config: Config) -> Storage:
    if config.storage.url is not None:
        from mooring.files.object_storage import ObjectStorage  # noqa: PLC0415 - large, and rarely needed

        return ObjectStorage(config.storage.url, config.storage.options)
    return LocalStorage(config.storage.root / "files")


def _quotas(config: Config) -> Quotas:
    return Quotas(
        total_bytes=config.storage.max_size,
        server_bytes=config.storage.max_server_size,
        scope_bytes=config.sessions.max_total_session_size,
        files_per_scope=config.sessions.max_files_per_session,
        artifacts_per_scope=config.artifacts.max_per_session,
    )


def _rules(config: Config) -> StoreRules:
    def rule(kind: Kind) -> KeepingRule:
        match kind:
            case "upload":
                return KeepingRule(config.uploads.max_file_bytes, config.uploads.ttl_seconds)
            case "artifact":
                return KeepingRule(config.artifacts.max_file_bytes, config.artifacts.ttl_seconds)
            case "result":
                return KeepingRule(config.limits.max_message_bytes, config.results.ttl_seconds)

    return StoreRules(
        rule("upload"),
        rule("artifact"),
        rule("result"),
        tombstone_seconds=config.sessions.tombstone_ttl_seconds,
    )
