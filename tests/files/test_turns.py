"""Searching and querying costs a process each: only so many at the same time, and everybody gets a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from tests.files.conftest import file_server, said, serving
from tests.files.test_writing import SCOPE, files_in
from tests.files.test_writing import play as play_with
from tests.support.gateway import Gateway
from tests.support.peers import Peer, StreamablePeer
from tests.support.waiting import eventually

from mooring.files.budgets import Budget, ResultRules
from mooring.files.faults import TooMany
from mooring.files.results import ResultKeeper
from mooring.files.store import FileStore
from mooring.files.turns import TurnRules, Turns

LIMIT_SECONDS = 10.0
RULES = TurnRules(running=3, running_per_scope=2, waiting=6, waiting_per_scope=4, wait_seconds=60.0)


class Stage:
    """Callers who take a turn and keep it until they are told to go."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.came: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._go: dict[str, asyncio.Event] = {}

    async def ask(self, *names: str) -> None:
        """The scope is the letter that a name begins with."""
        for name in names:
            self._go[name] = asyncio.Event()
            self.tasks[name] = asyncio.ensure_future(self._hold(name))
            await settle()

    async def _hold(self, name: str) -> None:
        async with self.turns.turn(name[0]):
            self.came.append(name)
            await self._go[name].wait()

    async def end(self, *names: str) -> None:
        for name in names:
            self._go[name].set()
            await self.tasks[name]
            await settle()

    async def cancel(self, name: str) -> None:
        self.tasks[name].cancel()
        await asyncio.wait([self.tasks[name]])
        await settle()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def play(scene: Callable[[Stage], Awaitable[None]], rules: TurnRules = RULES) -> None:
    async def run() -> None:
        stage = Stage(Turns(rules))
        async with asyncio.timeout(LIMIT_SECONDS):
            await scene(stage)
        for task in stage.tasks.values():
            task.cancel()
        await asyncio.wait(stage.tasks.values())
        assert (stage.turns.running, stage.turns.waiting) == (0, 0), "every place is given back"

    asyncio.run(run())


def test_one_scope_takes_no_more_than_its_share() -> None:
    async def scene(stage: Stage) -> None:
        await stage.ask("a1", "a2", "a3", "b1")
        assert stage.came == ["a1", "a2", "b1"], "a free place is not for who has its share"
        await stage.end("b1")
        assert stage.came == ["a1", "a2", "b1"]
        await stage.end("a1")
        assert stage.came[-1] == "a3"

    play(scene)


def test_scopes_take_turns_however_many_each_asks_for() -> None:
    async def scene(stage: Stage) -> None:
        await stage.ask("a1", "a2", "b1", "a3", "a4", "a5", "b2", "c1")
        await stage.end("a1")
        await stage.end("a2")
        await stage.end("b1")
        assert stage.came[3:] == ["a3", "b2", "c1"], "each scope once, before any comes again"
        await stage.end("b2")
        assert stage.came[6:] == ["a4"]

    play(scene)


def test_more_than_may_wait_are_told_what_to_do() -> None:
    async def scene(stage: Stage) -> None:
        await stage.ask("a1", "a2", "a3", "a4", "a5", "a6")
        with pytest.raises(TooMany, match="4 searches of this session wait already: wait for"):
            async with stage.turns.turn("a"):
                raise AssertionError("that was too many")
        await stage.ask("b1", "b2", "c1")
        with pytest.raises(TooMany, match="too many searches wait in the gateway: try again"):
            async with stage.turns.turn("d"):
                raise AssertionError("that was too many")
        assert (stage.turns.running, stage.turns.waiting) == (3, 6)

    play(scene)


def test_who_is_cancelled_while_waiting_frees_the_place() -> None:
    async def scene(stage: Stage) -> None:
        await stage.ask("a1", "a2", "a3", "a4", "a5", "a6")
        await stage.cancel("a3")
        await stage.cancel("a5")
        assert stage.turns.waiting == 2
        await stage.end("a1", "a2")
        assert stage.came == ["a1", "a2", "a4", "a6"]

    play(scene)


def test_who_is_cancelled_when_called_gives_the_turn_to_the_next() -> None:
    async def scene(stage: Stage) -> None:
        async with stage.turns.turn("a"):
            await stage.ask("a1", "a2", "a3")
        await stage.cancel("a2")  # which was called, and is not awake yet
        assert stage.came == ["a1", "a3"]

    play(scene)


def test_who_waits_too_long_is_told_so() -> None:
    async def scene(stage: Stage) -> None:
        await stage.ask("a1")
        with pytest.raises(TooMany, match="try again in a minute"):
            async with stage.turns.turn("a"):
                raise AssertionError("there was no place")
        assert stage.turns.waiting == 0

    play(scene, TurnRules(1, 1, 5, 5, wait_seconds=0.01))


# Attacked


def searches(gateway: Gateway) -> list[int]:
    """The processes that look into results now."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = path.read_text().rpartition(")")[2].split()[1]
            words = path.with_name("cmdline").read_bytes()
        except OSError:  # it ended meanwhile
            continue
        if int(parent) == gateway.process.pid and b"mooring.files.inspecting" in words:
            found.append(int(path.parent.name))
    return found


def kept(peer: Peer, text: str) -> str:
    return peer.tool("plain", {"text": text})["_meta"]["result"]["result_uri"]


def test_a_flood_of_searches_starts_few_processes_and_holds_up_nobody(tmp_path: Path) -> None:
    budget = {"max_inline_bytes": 1000, "search_seconds": 60}
    with serving(tmp_path, results=budget) as gateway, StreamablePeer(gateway, "files") as other:
        theirs = kept(other, "needle" + "x" * 5000)
        with StreamablePeer(gateway, "files") as attacker:
            endless = {"handle": kept(attacker, "a" * 5000), "pattern": r"(a|a)*b"}
            flood = [attacker.start_tool("files_result_search", endless) for _ in range(100)]
            eventually(lambda: sum(call.answers.qsize() for call in flood) == 82, "most to be refused")
            refused = [said(call.result()) for call in flood if call.answers.qsize()]
            assert all("of this session wait already: wait for their answers" in text for text in refused)
            eventually(lambda: len(searches(gateway)) == 2, "the share of one session to run")
            found = other.tool("files_result_search", {"handle": theirs, "pattern": "needle"})
            assert found["structuredContent"]["matches"][0]["match"] == "needle"
            queried = other.tool("files_result_query", {"handle": theirs, "path": "$"})
            assert "not JSON" in said(queried)
            assert len(searches(gateway)) == 2
        eventually(lambda: not searches(gateway), "what nobody waits for to end")


def test_a_flood_of_calls_whose_files_are_searched_for_starts_few_processes(tmp_path: Path) -> None:
    locator = {"mode": "regex", "output_path_regexes": [r"(a|a)*b"]}
    adapter = {"type": "artifact_producer", "tools": ["plain"], "output_locator": locator}
    server = {**file_server(), "adapters": [adapter]}
    with serving(tmp_path, server) as gateway, StreamablePeer(gateway, "files") as attacker:
        flood = [attacker.start_tool("plain", {"text": f"{number} " + "a" * 5000}) for number in range(30)]
        eventually(lambda: len(searches(gateway)) >= 4, "as many as may to run")
        assert all("was not kept" in said(call.result(60)) for call in flood[:1])
        assert len(searches(gateway)) <= 4


# A result meanwhile


def test_a_result_does_not_expire_while_its_search_waits(tmp_path: Path) -> None:
    now = [1000.0]

    async def scene(store: FileStore) -> None:
        keeper = a_keeper(store)
        handle = await a_result(store, b"a needle")
        async with AsyncExitStack() as others:
            for number in range(store.inspections.rules.running):
                await others.enter_async_context(store.inspections.turn(str(number)))
            given = {"handle": handle, "pattern": "needle"}
            searching = asyncio.ensure_future(keeper.answer("files_result_search", given, SCOPE))
            await settle()
            assert store.inspections.waiting == 1
            now[0] += 61  # of 60
            await store.sweep()
        assert b'"offset":2' in bytes((await searching).result)

    play_with(tmp_path, scene, lambda: now[0])


@pytest.mark.parametrize("tool", ["read", "search", "query"])
def test_a_result_whose_bytes_are_gone_is_not_found(tmp_path: Path, tool: str) -> None:
    async def scene(store: FileStore) -> None:
        given = {"handle": await a_result(store, b"a needle"), "pattern": "needle", "path": "$"}
        [blob] = files_in(tmp_path)
        blob.unlink()
        said = bytes((await a_keeper(store).answer(f"files_result_{tool}", given, SCOPE)).result)
        assert b"is gone: call the tool again" in said
        assert b'"isError":true' in said

    play_with(tmp_path, scene)


def a_keeper(store: FileStore) -> ResultKeeper:
    return ResultKeeper(store, "files", ResultRules(Budget(bytes=1)), lambda tool: tool)


async def a_result(store: FileStore, data: bytes) -> str:
    file = await store.begin("result", SCOPE, "files", "a.txt")
    await file.write(data)
    await file.finish()
    [record] = await store.commit([file])
    return record.uri
