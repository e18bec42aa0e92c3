"""What a server sees of our files, by how it runs."""

from __future__ import annotations

from enum import Enum
from urllib.parse import urlsplit

from mooring.config.schema import Server
from mooring.transports.loopback import is_loopback
from mooring.workloads.runconfig import RunConfig
from mooring.workloads.runconfig_effect import spec_of
from mooring.workloads.runtime import RemoteSource


class Sight(Enum):
    """Ordered by nothing but what is known: each has its own way of handing files over."""

    NOTHING = "nothing"
    """It runs on another machine, or in a sandbox that it shares with everybody."""
    FOLDER = "folder"
    """A folder that both of us reach."""
    MACHINE = "machine"
    """Each session has its own process, which sees what we see."""
    VIEW = "view"
    """Each session has its own sandbox, in which the files of that session are and no others."""


def sight_of(server: Server) -> Sight:
    """What this server sees of our files."""
    if server.files.reachable is False:
        return Sight.NOTHING
    if server.files.shared_directory is not None or server.files.reachable:
        return Sight.FOLDER
    if server.workload is not None:
        return Sight.MACHINE if server.workload.permission_profile is None else Sight.VIEW
    if server.run_config is not None:
        return _of_run_config(RunConfig.read(server.run_config, name=server.id))
    assert server.upstream is not None, "one of the three is there"
    return _of_url(server.upstream.url)


def share_of(server: Server) -> str:
    """Who shares a process of this server."""
    if server.run_config is None:
        return server.share
    return RunConfig.read(server.run_config, name=server.id).fields.mooring.share


def _of_run_config(config: RunConfig) -> Sight:
    spec = spec_of(config)
    if isinstance(spec.source, RemoteSource):
        return _of_url(spec.source.url)
    is_open = spec.sandbox == "off"
    if spec.transport != "stdio":
        return Sight.FOLDER if is_open else Sight.NOTHING
    return Sight.MACHINE if is_open else Sight.VIEW


def _of_url(url: str) -> Sight:
    return Sight.FOLDER if is_loopback(urlsplit(url).hostname or "") else Sight.NOTHING
