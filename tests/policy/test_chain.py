"""The chain: one order, in the code and in the guide; what is off is not in it."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from tests.unit.people import Files, Mailbox, Person

from mooring.errors import RpcError
from mooring.gateway.exchange import Exchange, Handler, compose
from mooring.policy.chain import ORDER, Step, build
from mooring.policy.telemetry.metrics import DESCRIPTIONS
from mooring.protocol import jsonrpc
from mooring.transports.wire import Answer

GUIDE = (Path(__file__).parents[2] / "docs/guides/guard.md").read_text(encoding="utf-8")


def test_the_table_in_the_guide_is_the_order_in_the_code() -> None:
    assert tuple(re.findall(r"^\| \d+ \| ([a-z -]+) \|", GUIDE, re.MULTILINE)) == ORDER


def test_every_metric_is_in_the_guide() -> None:
    assert set(re.findall(r"^\| `(mooring_\w+)`", GUIDE, re.MULTILINE)) == set(DESCRIPTIONS)


def exchange(method: str = "tools/call") -> Exchange:
    body = b'{"jsonrpc":"2.0","id":1,"method":"%b","params":{"name":"x"}}' % method.encode()
    return Exchange(Files(), Person(), jsonrpc.decode(body), method, body, Mailbox())


class Watcher:
    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log

    def began(self, exchange: Exchange) -> None:
        self.log.append(f"{self.name} began")

    def ended(self, exchange: Exchange, answer: Answer | None) -> Answer | None:
        self.log.append(f"{self.name} ended")
        return answer

    def failed(self, exchange: Exchange, error: BaseException) -> None:
        self.log.append(f"{self.name} failed")


def steps(log: list[str], refusing: str = "") -> list[Step]:
    def check(name: str) -> Step:
        def look(exchange: Exchange) -> None:
            log.append(name)
            if name == refusing:
                raise RpcError("no")

        return Step(name, check=look)

    async def webhook(exchange: Exchange, handler: Handler) -> Answer | None:
        log.append("validating webhooks")
        return await handler(exchange)

    return [
        check("authorization"),
        Step("validating webhooks", middleware=webhook),
        check("rate limits"),
        Step("audit", observer=Watcher("audit", log)),
        Step("telemetry", observer=Watcher("telemetry", log)),
    ]


async def final(exchange: Exchange) -> Answer:
    return Answer(version="2026-07-28", result=b"{}")


def test_steps_run_in_the_one_order_however_they_are_given() -> None:
    log: list[str] = []
    chain = build(steps(log))
    assert chain.names == ("telemetry", "audit", "rate limits", "validating webhooks", "authorization")
    assert len(chain.middlewares) == 3  # two groups that need no waiting, around the webhook
    asyncio.run(_run(chain.middlewares))
    assert log == [
        "telemetry began",
        "audit began",
        "rate limits",
        "validating webhooks",
        "authorization",
        "audit ended",
        "telemetry ended",
    ]


async def _run(middlewares: list) -> None:
    await compose(middlewares, final)(exchange())


def test_a_refusal_anywhere_is_seen_by_those_who_write_it_down() -> None:
    log: list[str] = []
    with pytest.raises(RpcError):
        asyncio.run(_run(build(steps(log, refusing="authorization")).middlewares))
    assert log[-2:] == ["audit failed", "telemetry failed"]


def test_without_steps_there_is_no_chain() -> None:
    chain = build([])
    assert (chain.middlewares, chain.concerns("tools/call")) == ([], False)


def test_steps_about_some_methods_leave_the_others_alone() -> None:
    chain = build([Step("pinning and lock", check=lambda _: None, methods=frozenset({"tools/list"}))])
    assert chain.concerns("tools/list")
    assert not chain.concerns("tools/call")
