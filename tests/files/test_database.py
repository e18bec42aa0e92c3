"""Writes that wait together are written together, and only the one that fails fails."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mooring.files.database import Database
from mooring.files.faults import Away, NoRoom
from mooring.files.local_storage import LocalStorage
from mooring.files.quick import QuickKeeper
from mooring.files.quotas import Quotas
from mooring.files.store import FileStore, KeepingRule, StoreRules
from mooring.files.views import Reach, Views


def _put(nonce: str) -> Callable[[sqlite3.Connection], None]:
    return lambda connection: connection.execute("INSERT INTO spent VALUES (?, 0)", (nonce,)) and None


def _kept(path: Path) -> set[str]:
    with sqlite3.connect(path) as other:
        return {str(row[0]) for row in other.execute("SELECT nonce FROM spent")}


class _Held:
    """A database whose thread waits until all have asked."""

    def __init__(self, database: Database) -> None:
        self.go = threading.Event()
        self._looking = asyncio.ensure_future(database.read(lambda _: self.go.wait(10)))

    async def release(self) -> None:
        self.go.set()
        await self._looking


@pytest.mark.anyio
async def test_writes_that_wait_together_share_one_transaction(tmp_path: Path) -> None:
    database = Database(tmp_path / "state.sqlite3")
    await database.open()
    began: list[int] = []
    database._connection.set_trace_callback(lambda text: began.append(1) if "COMMIT" in text else None)  # pyright: ignore[reportPrivateUsage]
    held = _Held(database)
    await asyncio.sleep(0)
    writes = [asyncio.ensure_future(database.run(_put(str(number)))) for number in range(20)]
    await asyncio.sleep(0)
    await held.release()
    await asyncio.gather(*writes)
    await database.close()
    assert len(began) == 1
    assert _kept(tmp_path / "state.sqlite3") == {str(number) for number in range(20)}


@pytest.mark.anyio
async def test_a_write_that_fails_does_not_take_its_neighbours_along(tmp_path: Path) -> None:
    database = Database(tmp_path / "state.sqlite3")
    await database.open()
    held = _Held(database)
    await asyncio.sleep(0)

    def fail(connection: sqlite3.Connection) -> None:
        _put("half")(connection)
        raise ValueError("no")

    outcomes = asyncio.gather(
        database.run(_put("before")), database.run(fail), database.run(_put("after")), return_exceptions=True
    )
    await asyncio.sleep(0)
    await held.release()
    first, second, third = await outcomes
    await database.close()
    assert (first, third) == (None, None)
    assert isinstance(second, ValueError)
    assert _kept(tmp_path / "state.sqlite3") == {"before", "after"}


@pytest.mark.anyio
async def test_whoever_is_cancelled_while_it_is_written_still_hears_what_came_of_it(tmp_path: Path) -> None:
    database = Database(tmp_path / "state.sqlite3")
    await database.open()
    held = _Held(database)
    await asyncio.sleep(0)
    heard: list[Exception | None] = []
    writing = asyncio.ensure_future(database.run(_put("one"), heard.append))
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    await held.release()
    await database.run(_put("two"))
    await database.close()
    assert heard == [None]
    assert _kept(tmp_path / "state.sqlite3") == {"one", "two"}


@pytest.mark.anyio
async def test_a_call_over_its_quota_is_counted_as_nothing_beside_others(tmp_path: Path) -> None:
    rule = KeepingRule(1000, 60.0)
    database = Database(tmp_path / "state.sqlite3")
    quotas = Quotas(scope_bytes=100)
    store = FileStore(database, LocalStorage(tmp_path / "bytes"), quotas, StoreRules(rule, rule, rule))
    await store.open()
    views = Views(tmp_path / "views", None, "files", store, Reach.OURS)
    keeper = QuickKeeper(store, views)
    folders = {scope: Path(await views.fresh_output(scope)) for scope in ("a" * 32, "b" * 32)}
    for name, size in (("one", 60), ("two", 60)):
        (folders["a" * 32] / name).write_bytes(b"x" * size)
    (folders["b" * 32] / "three").write_bytes(b"x" * 30)
    held = _Held(database)
    await asyncio.sleep(0)
    outcomes = asyncio.gather(
        *(keeper.keep(str(folder), scope, scope, "files", exposed=True) for scope, folder in folders.items()),
        return_exceptions=True,
    )
    await asyncio.sleep(0)
    await held.release()
    refused, kept = await outcomes
    assert isinstance(refused, NoRoom)
    assert isinstance(kept, tuple)
    assert (kept[0], store.usage.total, dict(store.usage.artifacts)) == (["three"], 30, {"b" * 32: 1})
    await store.close()


@pytest.mark.anyio
async def test_the_room_of_files_that_are_gone_goes_back_to_the_disk(tmp_path: Path) -> None:
    rule = KeepingRule(10**6, 60.0)
    now = 0.0
    database = Database(tmp_path / "state.sqlite3")
    rules = StoreRules(rule, rule, rule)
    store = FileStore(database, LocalStorage(tmp_path / "bytes"), Quotas(), rules, clock=lambda: now)
    await store.open()
    views = Views(tmp_path / "views", None, "files", store, Reach.OURS)
    keeper = QuickKeeper(store, views)
    for _ in range(40):
        folder = Path(await views.fresh_output("a" * 32))
        for number in range(4):
            (folder / str(number)).write_bytes(b"x" * 250_000)
        assert await keeper.keep(str(folder), "a" * 32, "b" * 32, "files", exposed=True)
    now = 100.0
    assert await store.sweep() == 160
    for _ in range(3):
        await store.sweep()
    await store.close()
    assert (tmp_path / "state.sqlite3").stat().st_size < 10_000_000


def test_a_state_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    async def run() -> None:
        database = Database(tmp_path / "state.sqlite3")
        await database.open()
        await database.read(lambda connection: connection.execute("PRAGMA query_only = ON"))
        with pytest.raises(Away, match="tell whoever runs it"):
            await database.run(lambda connection: connection.execute("INSERT INTO spent VALUES ('a', 1)"))
        await database.read(lambda connection: connection.execute("PRAGMA query_only = OFF"))
        await database.run(lambda connection: connection.execute("INSERT INTO spent VALUES ('a', 1)"))
        await database.close()

    asyncio.run(run())
