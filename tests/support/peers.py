"""Raw MCP clients of every revision, for conversations in tests."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable
from typing import Any

from tests.support.channels import Channel, HttpChannel, SseChannel, StdioChannel
from tests.support.gateway import Gateway
from tests.support.waiting import LIMIT_SECONDS, eventually

Json = dict[str, Any]
Handlers = dict[str, Callable[[Json], Json]]
META = "io.modelcontextprotocol/"
MODERN = "2026-07-28"
CAPABILITY = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class RpcRefused(Exception):
    """The answer was an error."""

    def __init__(self, error: Json) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: int = error["code"]
        self.error = error


class Pending:
    """A request that was sent."""

    def __init__(self, number: Any) -> None:
        self.id = number
        self.answers: queue.Queue[Json] = queue.Queue()

    def answer(self, limit: float = LIMIT_SECONDS) -> Json:
        try:
            return self.answers.get(timeout=limit)
        except queue.Empty:
            raise AssertionError(f"request {self.id} was not answered within {limit:g} s") from None

    def result(self, limit: float = LIMIT_SECONDS) -> Json:
        answer = self.answer(limit)
        if "error" in answer:
            raise RpcRefused(answer["error"])
        return answer["result"]


class Peer:
    """What clients of all revisions have in common."""

    def __init__(self, version: str, handlers: Handlers | None) -> None:
        self.version = version
        self.handlers = handlers or {}
        self.heard: list[Json] = []
        self.strays: list[Any] = []
        self.channel: Channel
        self.pending: dict[Any, Pending] = {}
        self.ids = itertools.count(1)
        self.serving: list[threading.Thread] = []

    @property
    def capabilities(self) -> Json:
        return {CAPABILITY[method]: {} for method in self.handlers}

    # Sending

    def start(self, method: str, params: Json | None = None) -> Pending:
        pending = Pending(next(self.ids))
        self.pending[pending.id] = pending
        message = {"jsonrpc": "2.0", "id": pending.id, "method": method, "params": self.prepare(params or {})}
        self.channel.send(message)
        return pending

    def prepare(self, params: Json) -> Json:
        return params

    def request(self, method: str, params: Json | None = None) -> Json:
        return self.start(method, params).result()

    def tool(self, name: str, arguments: Json | None = None, **meta: Any) -> Json:
        return self.request("tools/call", tool_params(name, arguments, **meta))

    def start_tool(self, name: str, arguments: Json | None = None, **meta: Any) -> Pending:
        return self.start("tools/call", tool_params(name, arguments, **meta))

    def notify(self, method: str, params: Json | None = None) -> None:
        message: Json = {"jsonrpc": "2.0", "method": method}
        self.channel.send(message | ({"params": params} if params is not None else {}))

    def cancel(self, pending: Pending) -> None:
        self.notify("notifications/cancelled", {"requestId": pending.id, "reason": "the test wants it"})

    # Hearing

    def receive(self, message: Any) -> None:
        if isinstance(message, list):
            for one in message:
                self.receive(one)
        elif "method" in message and "id" in message:
            thread = threading.Thread(target=self.serve, args=(message,), daemon=True)
            self.serving.append(thread)
            thread.start()
        elif "method" in message:
            self.heard.append(message)
        elif message.get("id") in self.pending:
            self.pending[message["id"]].answers.put(message)
        else:
            self.strays.append(message)

    def serve(self, message: Json) -> None:
        """A request of the server."""
        self.heard.append(message)
        handler = self.handlers.get(message["method"])
        if message["method"] == "ping":
            answer: Json = {"result": {}}
        elif handler is None:
            answer = {"error": {"code": -32601, "message": "I cannot do that"}}
        else:
            answer = {"result": handler(message.get("params") or {})}
        self.channel.send({"jsonrpc": "2.0", "id": message["id"], **answer})

    def of(self, method: str) -> list[Json]:
        return [message for message in self.heard if message["method"] == method]

    def wait_for(self, method: str, count: int = 1) -> list[Json]:
        return eventually(lambda: self.of(method) if len(self.of(method)) >= count else None, method)

    def close(self) -> None:
        for thread in self.serving:
            thread.join(LIMIT_SECONDS)
        self.channel.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def tool_params(name: str, arguments: Json | None = None, **meta: Any) -> Json:
    params: Json = {"name": name, "arguments": arguments or {}}
    return params | ({"_meta": meta} if meta else {})


class LegacyPeer(Peer):
    """2024-11-05 to 2025-11-25: a handshake first."""

    era = "legacy"
    introduction: Json

    def shake_hands(self) -> None:
        params = {
            "protocolVersion": self.version,
            "capabilities": self.capabilities,
            "clientInfo": {"name": "raw-peer", "version": "1"},
        }
        self.introduction = self.request("initialize", params)
        self.settle()
        self.notify("notifications/initialized")

    def settle(self) -> None:
        """The handshake was answered."""

    def watch(self) -> None:
        """Hear of changes from now on."""

    def subscribe(self, uri: str) -> None:
        self.request("resources/subscribe", {"uri": uri})

    def unsubscribe(self, uri: str) -> None:
        self.request("resources/unsubscribe", {"uri": uri})

    def set_level(self, level: str) -> None:
        self.request("logging/setLevel", {"level": level})


class StreamablePeer(LegacyPeer):
    channel: HttpChannel

    def __init__(
        self, gateway: Gateway, server: str, version: str = "2025-11-25", handlers: Handlers | None = None
    ) -> None:
        super().__init__(version, handlers)
        self.channel = HttpChannel(gateway.url(server), self.headers_for, self.receive)
        self.shake_hands()

    def headers_for(self, message: Json) -> Json:
        if self.channel.session is None:
            return {}
        spoken = {"MCP-Protocol-Version": self.version} if self.version >= "2025-06-18" else {}
        return {"Mcp-Session-Id": self.channel.session, **spoken}

    def settle(self) -> None:
        response = self.channel.streams[1].response
        assert response is not None
        self.channel.session = response.getheader("Mcp-Session-Id")

    def watch(self) -> None:
        self.channel.listen()


class SsePeer(LegacyPeer):
    channel: SseChannel

    def __init__(
        self, gateway: Gateway, server: str, version: str = "2024-11-05", handlers: Handlers | None = None
    ) -> None:
        super().__init__(version, handlers)
        self.channel = SseChannel(gateway.url(server), self.receive)
        self.shake_hands()


class StdioPeer(LegacyPeer):
    channel: StdioChannel

    def __init__(
        self, gateway: Gateway, server: str, version: str = "2025-11-25", handlers: Handlers | None = None
    ) -> None:
        super().__init__(version, handlers)
        self.channel = StdioChannel(gateway, server, self.receive)
        self.shake_hands()


class ModernPeer(Peer):
    """2026-07-28: every request stands alone; what the server wants to know comes as its answer."""

    era = "modern"

    def __init__(self, handlers: Handlers | None = None) -> None:
        super().__init__(MODERN, handlers)
        self.log_level: str | None = None
        self.listening: Pending | None = None
        self.wish: Json = {}

    def prepare(self, params: Json) -> Json:
        own = {
            META + "protocolVersion": self.version,
            META + "clientCapabilities": self.capabilities,
            META + "clientInfo": {"name": "raw-peer", "version": "1"},
        }
        if self.log_level is not None:
            own[META + "logLevel"] = self.log_level
        return {**params, "_meta": {**params.get("_meta", {}), **own}}

    def request(self, method: str, params: Json | None = None) -> Json:
        """With as many rounds as the server wants."""
        params = params or {}
        result = self.start(method, params).result()
        while result["resultType"] == "input_required":
            responses = {}
            for name, question in result["inputRequests"].items():
                self.heard.append(question)
                responses[name] = self.handlers[question["method"]](question["params"])
            following = {**params, "inputResponses": responses}
            if "requestState" in result:
                following["requestState"] = result["requestState"]
            result = self.start(method, following).result()
        return result

    @property
    def introduction(self) -> Json:
        return self.request("server/discover")

    def watch(self) -> None:
        self._listen(toolsListChanged=True, promptsListChanged=True, resourcesListChanged=True)

    def subscribe(self, uri: str) -> None:
        self._listen(resourceSubscriptions=[*self.wish.get("resourceSubscriptions", []), uri])

    def unsubscribe(self, uri: str) -> None:
        left = [known for known in self.wish.get("resourceSubscriptions", []) if known != uri]
        self._listen(resourceSubscriptions=left)

    def _listen(self, **wish: Any) -> None:
        """A new stream with the wider wish, then an end to the old one."""
        old, self.wish = self.listening, {**self.wish, **wish}
        before = len(self.of("notifications/subscriptions/acknowledged"))
        self.listening = self.start("subscriptions/listen", {"notifications": self.wish})
        self.wait_for("notifications/subscriptions/acknowledged", before + 1)
        if old is not None:
            self.cancel(old)

    def set_level(self, level: str) -> None:
        self.log_level = level


class ModernHttpPeer(ModernPeer):
    channel: HttpChannel

    def __init__(
        self, gateway: Gateway, server: str, version: str = MODERN, handlers: Handlers | None = None
    ) -> None:
        super().__init__(handlers)
        self.channel = HttpChannel(gateway.url(server), self.headers_for, self.receive)

    def headers_for(self, message: Json) -> Json:
        method = message["method"]
        headers = {"MCP-Protocol-Version": self.version, "Mcp-Method": method}
        if method in NAMED_BY:
            headers["Mcp-Name"] = message["params"][NAMED_BY[method]]
        return headers

    def cancel(self, pending: Pending) -> None:
        self.channel.cancel(pending.id)


class ModernStdioPeer(ModernPeer):
    channel: StdioChannel

    def __init__(
        self, gateway: Gateway, server: str, version: str = MODERN, handlers: Handlers | None = None
    ) -> None:
        super().__init__(handlers)
        self.channel = StdioChannel(gateway, server, self.receive)
