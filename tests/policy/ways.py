"""`mooring`, held to one way for calls: ways.py short FILE ARGUMENTS… | ways.py whole FILE ARGUMENTS…

On the short way every guarded call that takes it leaves a byte in FILE; the whole way knows no
other than a task that runs the whole chain. On both, a name that is on no list is looked for each time, so
that what is written down does not depend on how long ago somebody looked.
"""

import sys
from pathlib import Path
from typing import Any

from mooring.gateway.direct import Lane
from mooring.gateway.exchange import Exchange
from mooring.gateway.server import Server
from mooring.gateway.upstream import Upstream
from mooring.interfaces.cli.main import main
from mooring.policy import catalogue

way, place = sys.argv[1], Path(sys.argv[2])
del sys.argv[1:3]
take, begin = Lane.take, Upstream.begin_directly
catalogue.ASK_AGAIN_SECONDS = 0.0  # type: ignore[misc]


def counted(lane: Lane, *arguments: Any) -> bool:
    known = set(lane.session.calls)
    taken = take(lane, *arguments)
    if taken and any(exchange.guard is not None for exchange in lane.session.calls if exchange not in known):
        count()
    return taken


def counted_too(upstream: Upstream, home: Any, exchange: Exchange) -> bool:
    begun = begin(upstream, home, exchange)
    if begun and exchange.guard is not None:
        count()
    return begun


def count() -> None:
    with place.open("ab") as file:
        file.write(b".")


def never(*_: object) -> bool:
    return False


if way == "short":
    Lane.take = counted  # type: ignore[method-assign]
    Upstream.begin_directly = counted_too  # type: ignore[method-assign]
else:
    Lane.take = Server._begin_quickly = Server._begin_directly = never  # type: ignore[method-assign]

if __name__ == "__main__":
    sys.exit(main())
