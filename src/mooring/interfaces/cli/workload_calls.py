"""Asking the running gateway about workloads and servers, over its socket."""

from __future__ import annotations

import argparse
import http.client
import json
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

from mooring.config.loading import ConfigError, load
from mooring.config.running import is_run, run_config_of
from mooring.config.schema import Config, Server
from mooring.ecosystem.clients.table import ServerAddress
from mooring.interfaces.cli.control_api import UnixConnection, get_json
from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.gateway_socket import answers, find_socket, refusal
from mooring.interfaces.cli.service_daemon import gateway_socket
from mooring.workloads.store import DEFAULT_GROUP

# A first start may download a package and build an image.
RUN_SECONDS = 600.0


def server_addresses(arguments: argparse.Namespace) -> list[ServerAddress]:
    """All servers with their stable URLs: from the running gateway, else from the configuration."""
    try:
        status = get_json(find_socket(arguments), "/api/v1/status")
    except Failed:
        return _configured(arguments)
    told = {address.id: address for address in _workloads(find_socket(arguments))}
    servers = cast("list[dict[str, Any]]", status.get("servers", []))
    return [told.get(str(each["id"])) or ServerAddress(str(each["id"]), str(each["url"])) for each in servers]


def _workloads(socket: Path) -> list[ServerAddress]:
    """What the gateway runs, with the address that clients are to be told; it may run nothing."""
    try:
        listed = get_json(socket, "/api/v1/workloads")
    except Failed:
        return []
    workloads = cast("list[dict[str, Any]]", listed.get("workloads", []))
    return [ServerAddress(str(each["name"]), str(each["url"]), str(each["group"])) for each in workloads]


def _configured(arguments: argparse.Namespace) -> list[ServerAddress]:
    file = Path(arguments.config or "mooring.yaml")
    if not file.is_file():
        if arguments.config:
            raise Failed(f"there is no file `{file}`: give the right one with --config")
        return []
    try:
        config = load(file)
    except ConfigError as error:
        raise Failed(str(error)) from error
    return [_declared(server, f"{base_url(config)}/mcp/{server.id}") for server in config.servers]


def _declared(entry: Server, url: str) -> ServerAddress:
    """A server of the file as clients are to know it."""
    if not is_run(entry):
        return ServerAddress(entry.id, url, entry.group or DEFAULT_GROUP)
    config = run_config_of(entry)
    return ServerAddress(entry.id, config.told(url), config.fields.group or DEFAULT_GROUP)


def base_url(config: Config) -> str:
    """Where clients on this machine reach the gateway of this configuration."""
    if config.public_url:
        return config.public_url.rstrip("/")
    scheme = "https" if config.tls.cert else "http"
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(config.host, config.host)  # noqa: S104 - a comparison
    shown = f"[{host}]" if ":" in host else host
    return urlsplit(f"{scheme}://{shown}:{config.port}").geturl()


def base_url_for(arguments: argparse.Namespace) -> str:
    """Where clients reach the servers that will be imported with these arguments."""
    servers = server_addresses(arguments) if arguments.run else []
    if servers:
        return servers[0].url.rpartition("/mcp/")[0]
    file = Path(arguments.into)
    if arguments.run or not file.is_file():
        return base_url(Config())
    try:
        return base_url(load(file))
    except ConfigError as error:
        raise Failed(str(error)) from error


def workload_names(arguments: argparse.Namespace) -> list[str]:
    """The names that servers of the gateway already have; it is started if it does not run."""
    if arguments.dry_run and not answers(find_socket(arguments)):
        return []  # nothing is to be started only to look
    status = get_json(gateway_socket(arguments), "/api/v1/status")
    return [str(each["id"]) for each in cast("list[dict[str, Any]]", status.get("servers", []))]


def run_workload(arguments: argparse.Namespace, config: dict[str, Any]) -> dict[str, Any]:
    """Run a server as the RunConfig says and wait until it does."""
    connection = UnixConnection(gateway_socket(arguments), RUN_SECONDS)
    try:
        connection.request(
            "POST", "/api/v1/workloads", json.dumps(config), {"Content-Type": "application/json"}
        )
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise Failed(f"the gateway broke off: {error or type(error).__name__}") from error
    finally:
        connection.close()
    if response.status >= 300:
        raise Failed(refusal(response.status, body))
    return cast("dict[str, Any]", json.loads(body))
