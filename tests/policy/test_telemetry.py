"""Metrics for Prometheus, traces for an OTLP receiver, and nothing at all by default."""

from __future__ import annotations

import gzip
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families
from tests.policy.caller import Caller
from tests.policy.shelf import Shelf, tool
from tests.support.gateway import running_gateway
from tests.support.waiting import eventually

from mooring.policy.telemetry.metrics import BUCKETS, DESCRIPTIONS, Metrics

pytestmark = pytest.mark.e2e


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_page_is_read_by_prometheus_s_own_parser(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "s", tool('say "hi"\n'), tool("say"))
    with (
        shelf.http("one", tools={"deny": ["hidden"]}) as server,
        running_gateway(tmp_path, [server], telemetry={"prometheus": True}) as gateway,
    ):
        caller = Caller(gateway.address, "one")
        caller.initialize()
        for name in ("say", "say", 'say "hi"\n', "hidden"):
            caller.tool(name)
        said = caller.send("GET", "/metrics", b"", {})
        assert said.headers["content-type"].startswith("text/plain; version=0.0.4")
        found = samples(said.body.decode())
        labels = (("outcome", "success"), ("server", "one"), ("tool", "say"))
        assert found["mooring_tool_calls_total", labels] == 2
        assert (
            "mooring_tool_calls_total",
            (("outcome", "success"), ("server", "one"), ("tool", 'say "hi"\n')),
        ) in found
        count = found["mooring_request_duration_seconds_count", (("method", "tools/call"), ("server", "one"))]
        assert count == 4
        assert found["mooring_active_requests", ()] == 0


def test_without_a_word_in_the_configuration_there_is_no_page(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "s", tool("say"))
    with shelf.http("one") as server, running_gateway(tmp_path, [server]) as gateway:
        assert Caller(gateway.address, "one").send("GET", "/metrics", b"", {}).status == 404


def test_strangers_do_not_get_the_numbers(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "s", tool("say"))
    settings: dict[str, Any] = {"telemetry": {"prometheus": True}, "auth": {"mode": "api_key"}}
    with shelf.http("one") as server, running_gateway(tmp_path, [server], **settings) as gateway:
        caller = Caller(gateway.address, "one")
        assert caller.send("GET", "/metrics", b"", {}).status == 401
        key = gateway.command("key", "create", "prometheus").stdout.strip()
        headers = {"Authorization": f"Bearer {key}"}
        eventually(lambda: caller.send("GET", "/metrics", b"", headers).status == 200, "the key to be known")
        page = caller.send("GET", "/metrics", b"", headers).body.decode()
        caller.initialize()
        assert (
            'mooring_refused_total{server="one",status="401"}'
            in caller.send("GET", "/metrics", b"", headers).body.decode()
        )
        assert "# TYPE mooring_requests_total counter" in page


def test_a_flood_of_names_does_not_become_a_flood_of_series() -> None:
    metrics = Metrics()
    for number in range(10_000):
        metrics.count("mooring_tool_calls_total", (("tool", f"made up {number}"),))
    assert len(metrics.text().splitlines()) < 5_100 + len(DESCRIPTIONS) * 2
    metrics.observe((("method", "x"),), 10 * BUCKETS[-1])
    assert 'le="+Inf"} 1' in metrics.text()


class Receiver:
    """An OTLP receiver: decodes what it gets with the protocol's own library."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.headers: list[dict[str, str]] = []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                request = ExportTraceServiceRequest.FromString(body)
                receiver.headers.append(dict(self.headers.items()))
                for resource in request.resource_spans:
                    for scope in resource.scope_spans:
                        receiver.spans += scope.spans
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_a_call_is_one_trace_from_the_caller_to_the_server(tmp_path: Path, receiver: Receiver) -> None:
    shelf = Shelf(tmp_path / "s", tool("say"))
    section = {"otlp_endpoint": receiver.url, "sampling_rate": 1.0, "otlp_headers": {"x-team": "deck"}}
    trace = "0af7651916cd43dd8448eb211c80319c"
    with shelf.http("one") as server, running_gateway(tmp_path, [server], telemetry=section) as gateway:
        caller = Caller(gateway.address, "one")
        caller.initialize()
        given = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
        caller.request("tools/call", {"name": "say", "arguments": {}, "_meta": given})
        span = eventually(
            lambda: next((span for span in receiver.spans if span.name == "tools/call say"), None), "the span"
        )
        assert span.trace_id.hex() == trace
        assert span.parent_span_id.hex() == "b7ad6b7169203331"
        attributes = {entry.key: entry.value.string_value for entry in span.attributes}
        assert attributes["mcp.method.name"] == "tools/call"
        assert attributes["gen_ai.tool.name"] == "say"
        passed_on = shelf.calls()[-1]["_meta"]["traceparent"]
        assert passed_on == f"00-{trace}-{span.span_id.hex()}-01"
        assert any(headers.get("x-team") == "deck" for headers in receiver.headers)
        assert json.dumps(attributes)
