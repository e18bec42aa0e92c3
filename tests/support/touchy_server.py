"""A legacy server over pipes that cannot bear to be asked something before `initialize`.

touchy_server.py exits|ignores
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

Json = dict[str, Any]


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def hear() -> Json:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def call(name: str, arguments: Json) -> str:
    if name == "ask":
        params = {"message": "which?", "requestedSchema": {"type": "object", "properties": {}}}
        say(id="question", method="elicitation/create", params=params)
        while (answer := hear()).get("id") != "question":
            pass
        return json.dumps(answer.get("result", answer.get("error")))
    if name == "wait":
        time.sleep(arguments["seconds"])
    return str(os.getpid())


def main() -> None:
    greeted = False
    while True:
        message = hear()
        method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
        if number is None or method is None:
            continue
        if method == "initialize":
            greeted = True
            information = {"name": "touchy", "version": "1"}
            say(
                id=number,
                result={
                    "protocolVersion": "2025-11-25",
                    "capabilities": {"tools": {}},
                    "serverInfo": information,
                },
            )
        elif not greeted:
            if sys.argv[1] == "exits":
                sys.exit(3)
        elif method == "tools/call":
            text = call(params["name"], params.get("arguments") or {})
            say(id=number, result={"content": [{"type": "text", "text": text}]})
        else:
            say(id=number, result={})


if __name__ == "__main__":
    main()
