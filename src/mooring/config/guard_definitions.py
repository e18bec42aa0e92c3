"""Parts of the guard that look at tool definitions: made harmless, held to what a session or a lock knows."""
# ruff: noqa: PLC0415 - libraries for policies, tokens and Redis take longer to load than a gateway to start

from __future__ import annotations

from functools import partial
from typing import Final

from mooring import durable
from mooring.config.guard_part import LISTED_AND_CALLED, Hooks, Part
from mooring.config.schema import Config, Server
from mooring.gateway.exchange import Exchange
from mooring.policy.catalogue import Catalogue
from mooring.policy.chain import Step
from mooring.policy.watching import Watch

LISTED: Final = frozenset({"tools/list"})
OBSERVED: Final = "definitions"


def sanitizing_part(config: Config) -> Part:
    from mooring.policy.pinning.sanitizing import Sanitizer, Sanitizing

    def steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
        del catalogue, watch
        wanted = entry.sanitize or config.core.sanitize
        if wanted.mode == "off":
            return []
        sanitizer = Sanitizer(
            wanted.mode,
            wanted.max_title_chars,
            wanted.max_description_chars,
            wanted.max_schema_text_chars,
            wanted.normalize_unicode,
            wanted.remove_invisible_characters,
        )
        found = [Step("sanitizing", middleware=Sanitizing(sanitizer, entry.id), methods=LISTED)]
        if wanted.mode == "block":  # what is on no list cannot be called
            named = Step("pinning and lock", check=_nothing, needs_catalogue=True, methods=LISTED_AND_CALLED)
            found.append(named)
        return found

    return Part(steps)


def _nothing(_: Exchange) -> None:
    """The list decides."""


def pinning_part(config: Config, hooks: Hooks) -> Part:
    from mooring.policy.pinning.session import Baselines, Pinning

    known: dict[str, Baselines] = hooks.kept.setdefault("pinning", {})

    def steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
        wanted = entry.tool_definition_pinning or config.core.tool_definition_pinning
        if wanted.mode == "off":
            return []
        ends = wanted.mode == "block" and wanted.block_error_session_action == "invalidate"
        pinning = Pinning(
            wanted.mode,
            wanted.block_strategy,
            report=watch.drifted,
            end_session=hooks.ended if ends else None,
            catalogue=catalogue,
            baselines=known.setdefault(entry.id, Baselines()),
        )
        if wanted.mode == "warn":
            return [Step("pinning and lock", settle=pinning.settle, methods=LISTED)]
        return [
            Step("pinning and lock", check=pinning.check, settle=pinning.settle, methods=LISTED_AND_CALLED)
        ]

    return Part(steps)


def lock_part(config: Config, hooks: Hooks) -> Part:
    from mooring.policy.pinning.lock import LOCK_PLACE, LockFile, ServerLock

    wanted = config.core.tool_definition_lock
    assert wanted.mode != "off"
    mode = wanted.mode
    lock = LockFile(wanted.file)
    folder = durable.private_folder(config.storage.root / OBSERVED)
    durable.replace_file(folder / LOCK_PLACE, str(wanted.file).encode())

    def steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
        observed = folder / f"{entry.id}.json"
        applied = ServerLock(
            lock,
            entry.id,
            catalogue,
            observed,
            mode=mode,
            report=watch.drifted,
            mismatched=partial(hooks.mismatched, entry.id),
        )
        if mode == "block":
            catalogue.judges.append(applied.shown)
        return [
            Step(
                "pinning and lock",
                check=applied.check,
                present=applied.present,
                needs_catalogue=mode == "block",
                methods=LISTED_AND_CALLED,
            )
        ]

    return Part(steps, tidy=lock.refresh, lock_hash=lambda: lock.hash)
