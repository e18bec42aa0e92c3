"""Metrics for Prometheus, traces for an OTLP receiver, and nothing at all by default."""

from __future__ import annotations

import gzip
import http.server
import json
import socket
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families
from tests.policy.caller import Caller
from tests.policy.shelf import Shelf, tool
from tests.support.gateway import program, running_gateway
from tests.support.packages import program as debian_program
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
        metrics.counter("mooring_tool_calls_total", (("tool", f"made up {number}"),)).value += 1
    assert len(metrics.text().splitlines()) < 5_100 + len(DESCRIPTIONS) * 2
    metrics.histogram((("method", "x"),)).observe(10 * BUCKETS[-1])
    assert 'le="+Inf"} 1' in metrics.text()


class Receiver:
    """An OTLP receiver: decodes what it gets with the protocol's own library."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.metrics: dict[str, Any] = {}
        self.events: list[Any] = []
        self.headers: list[dict[str, str]] = []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver.headers.append({name.lower(): value for name, value in self.headers.items()})
                receiver.take(self.path, body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self._handler = Handler
        self.listen(0)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def listen(self, port: int) -> None:
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), self._handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, path: str, body: bytes) -> None:
        match path:
            case "/v1/traces":
                traces = ExportTraceServiceRequest.FromString(body)
                self.spans += [
                    s for r in traces.resource_spans for scope in r.scope_spans for s in scope.spans
                ]
            case "/v1/metrics":
                figures = ExportMetricsServiceRequest.FromString(body)
                [resource] = figures.resource_metrics
                self.metrics = {m.name: m for scope in resource.scope_metrics for m in scope.metrics}
            case "/v1/logs":
                logs = ExportLogsServiceRequest.FromString(body)
                self.events += [e for r in logs.resource_logs for s in r.scope_logs for e in s.log_records]
            case _:
                raise AssertionError(path)


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


@pytest.mark.parametrize("meta", [None, [], 5, "x"])
def test_a_call_without_a_place_for_its_trace_loses_nothing(
    tmp_path: Path, receiver: Receiver, meta: Any
) -> None:
    shelf = Shelf(tmp_path / "s", tool("say"))
    section = {"otlp_endpoint": receiver.url, "sampling_rate": 1.0}
    with shelf.http("one") as server, running_gateway(tmp_path, [server], telemetry=section) as gateway:
        caller = Caller(gateway.address, "one")
        caller.initialize()
        caller.request("tools/call", {"name": "say", "arguments": {"text": "x"}, "_meta": meta})
        (call,) = shelf.calls()
        assert (call["name"], call["arguments"]) == ("say", {"text": "x"})


def test_what_went_wrong_is_in_the_span(tmp_path: Path, receiver: Receiver) -> None:
    shelf = Shelf(tmp_path / "s", tool("say"), tool("broken"))
    section = {"otlp_endpoint": receiver.url, "sampling_rate": 1.0}
    with (
        shelf.http("one", tools={"deny": ["hidden"]}) as server,
        running_gateway(tmp_path, [server], telemetry=section) as gateway,
    ):
        caller = Caller(gateway.address, "one")
        caller.initialize()
        for name in ("say", "broken", "hidden"):
            caller.tool(name)
        caller.request("resources/read", {"uri": "shelf://none"})
        names = ("tools/call say", "tools/call broken", "tools/call hidden", "resources/read shelf://none")
        found = eventually(
            lambda: (
                {span.name: span for span in receiver.spans}
                if {span.name for span in receiver.spans}.issuperset(names)
                else None
            ),
            "the spans",
        )
        said = [attributes(found[name]) for name in names]
        assert [each.get("error.type") for each in said] == [None, "tool_error", "-32602", "-32002"]
        assert [found[name].status.code for name in names] == [0, 2, 2, 2]
        assert [each["jsonrpc.request.id"] for each in said] == ["1", "2", "3", "4"]
        assert len({each["mcp.session.id"] for each in said}) == 1
        assert caller.session["Mcp-Session-Id"] not in str(said), "that would be a way into the session"
        assert said[0]["network.transport"] == "tcp"


def test_a_collector_gets_the_figures_and_the_audit_too(tmp_path: Path, receiver: Receiver) -> None:
    shelf = Shelf(tmp_path / "s", tool("say"))
    settings: dict[str, Any] = {
        "telemetry": {"otlp_endpoint": receiver.url, "otlp_headers": {"x-team": "deck"}},
        "audit": {"enabled": True, "output": "otlp"},
    }
    with shelf.http("one") as server, running_gateway(tmp_path, [server], **settings) as gateway:
        caller = Caller(gateway.address, "one")
        caller.initialize()
        for _ in range(3):
            caller.tool("say")
        calls = eventually(
            lambda: [e for e in map(event, receiver.events) if e["type"] == "mcp_tool_call"][2:], "the events"
        )
        assert calls[0]["target"]["name"] == "say"
        assert caller.send("GET", "/metrics", b"", {}).status == 404, "only the collector was asked for"
    # What was not sent yet leaves when the gateway ends.
    durations = receiver.metrics["mcp.server.operation.duration"].histogram.data_points
    [said] = [point for point in durations if attributes(point)["mcp.method.name"] == "tools/call"]
    assert (said.count, sum(said.bucket_counts), attributes(said)["mooring.server"]) == (3, 3, "one")
    counted = receiver.metrics["mooring.tool_calls"].sum.data_points
    assert [(point.as_int, attributes(point)["gen_ai.tool.name"]) for point in counted] == [(3, "say")]
    assert all(headers.get("x-team") == "deck" for headers in receiver.headers)
    assert [event(record)["seq"] for record in receiver.events] == list(range(len(receiver.events)))


@pytest.mark.parametrize("signal", ["traces", "metrics"])
def test_a_collector_gets_only_what_it_is_for(tmp_path: Path, receiver: Receiver, signal: str) -> None:
    shelf = Shelf(tmp_path / "s", tool("say"))
    section = {"otlp_endpoint": receiver.url, "sampling_rate": 1.0, "otlp_signals": signal}
    with shelf.http("one") as server, running_gateway(tmp_path, [server], telemetry=section) as gateway:
        caller = Caller(gateway.address, "one")
        caller.initialize()
        assert caller.tool("say").result
    # What was not sent yet has left when the gateway has ended.
    assert (bool(receiver.spans), bool(receiver.metrics)) == (signal == "traces", signal == "metrics")


def test_events_wait_for_a_collector_that_is_away(tmp_path: Path, receiver: Receiver) -> None:
    shelf = Shelf(tmp_path / "s", tool("say"))
    port = receiver.server.server_port
    receiver.server.shutdown()
    receiver.server.server_close()
    telemetry = {"otlp_endpoint": f"http://127.0.0.1:{port}"}
    audit = {"enabled": True, "output": "otlp"}
    with (
        shelf.http("one") as server,
        running_gateway(tmp_path, [server], telemetry=telemetry, audit=audit) as gateway,
    ):
        caller = Caller(gateway.address, "one")
        caller.initialize()
        assert caller.tool("say").result
        eventually(lambda: "/v1/logs` cannot be reached" in gateway.log(), "the lack of it to be said")
        receiver.listen(port)
        eventually(lambda: any(event(e)["type"] == "mcp_tool_call" for e in receiver.events), "the event")


def event(record: Any) -> dict[str, Any]:
    return json.loads(record.body.string_value)


def attributes(point: Any) -> dict[str, str]:
    return {entry.key: entry.value.string_value for entry in point.attributes}


def test_an_audit_for_a_collector_needs_one(tmp_path: Path) -> None:
    config = tmp_path / "mooring.yaml"
    config.write_text(json.dumps({"mooring": 1, "servers": [], "audit": {"enabled": True, "output": "otlp"}}))
    said = subprocess.run(
        [program(), "serve", "--config", str(config)], capture_output=True, text=True, timeout=30, check=False
    )
    assert said.returncode != 0
    assert "telemetry.otlp_endpoint" in said.stderr


@contextmanager
def prometheus(folder: Path, target: str, key: str) -> Iterator[str]:
    """A real Prometheus that scrapes one gateway, with a key; where it is asked."""
    server = debian_program("prometheus", "prometheus")
    (folder / "key").write_text(key)
    scrape = {
        "job_name": "mooring",
        "scrape_interval": "1s",
        "static_configs": [{"targets": [target]}],
        "authorization": {"credentials_file": str(folder / "key")},
    }
    (folder / "prometheus.yml").write_text(json.dumps({"scrape_configs": [scrape]}))
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [server, f"--config.file={folder / 'prometheus.yml'}", f"--web.listen-address={address}"]
    with (
        (folder / "prometheus.log").open("wb") as log,
        subprocess.Popen(
            [*command, f"--storage.tsdb.path={folder / 'series'}"], stdout=log, stderr=log
        ) as process,
    ):
        try:
            yield f"http://{address}"
        finally:
            process.kill()
            process.wait(5)


def test_a_real_prometheus_scrapes_the_figures(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "s", tool("say"))
    settings: dict[str, Any] = {"telemetry": {"prometheus": True}, "auth": {"mode": "api_key"}}
    with shelf.http("one") as server, running_gateway(tmp_path, [server], **settings) as gateway:
        key = gateway.command("key", "create", "watcher").stdout.strip()
        caller = Caller(gateway.address, "one", {"Authorization": f"Bearer {key}"})
        eventually(lambda: caller.initialize().status == 200, "the key to be known")
        for _ in range(3):
            caller.tool("say")
        with prometheus(tmp_path, caller.host, key) as asked:

            def value(query: str) -> list[str]:
                url = f"{asked}/api/v1/query?{urlencode({'query': query})}"
                try:
                    with urllib.request.urlopen(url, timeout=5) as response:
                        found = json.load(response)["data"]["result"]
                except OSError:
                    return []
                return [series["value"][1] for series in found]

            calls = 'mooring_tool_calls_total{server="one",tool="say",outcome="success"}'
            eventually(lambda: value(calls) == ["3"], "the series in Prometheus", limit=30)
            count = 'mooring_request_duration_seconds_count{server="one",method="tools/call"}'
            assert value(count) == ["3"]
            assert value('up{job="mooring"}') == ["1"]
