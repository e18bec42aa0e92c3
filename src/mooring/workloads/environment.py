"""The variables a sandboxed server gets: a short list, its own, and the way to the egress proxy."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mooring.workloads.egress.proxy import PORT
from mooring.workloads.runtime import WorkloadSpec

_KEPT: Final = (
    *("PATH", "LANG", "LANGUAGE", "TZ", "TERM", "USER", "LOGNAME"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
)
_DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_TEMPORARY: Final = "/tmp"  # noqa: S108  the sandbox's own
_PORT_MARK: Final = "{port}"
HTTP_PORT: Final = 8080
"""Where an HTTP server listens inside, unless it says otherwise: every sandbox has all ports to itself."""


def inner_environment(
    spec: WorkloadSpec, secrets: Mapping[str, str], *, home: Path, proxied: bool
) -> dict[str, str]:
    """Everything in it: nothing else of our own environment gets in."""
    return {**base_environment(home, proxied=proxied), **port_variables(spec), **spec.env, **secrets}


def base_environment(home: Path, *, proxied: bool) -> dict[str, str]:
    """What every process of ours gets, in a sandbox or not."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    kept |= {name: value for name, value in os.environ.items() if name.startswith("LC_")}
    kept |= {"HOME": str(home)}
    kept.setdefault("PATH", _DEFAULT_PATH)
    if proxied:
        kept |= {"TMPDIR": _TEMPORARY, **proxy_variables(f"127.0.0.1:{PORT}")}
    return kept


def proxy_variables(address: str) -> dict[str, str]:
    """What HTTP clients look for. `ALL_PROXY` is HTTP as well: some break on a SOCKS address."""
    url = f"http://{address}"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    found = {spelled: url for name in names for spelled in (name, name.lower())}
    nearby = "localhost,127.0.0.1,::1"
    # Node looks at these variables only when told to, from 22.21 and 24.5 on; before, nothing gets out.
    return {**found, "NO_PROXY": nearby, "no_proxy": nearby, "NODE_USE_ENV_PROXY": "1"}


def port_of(spec: WorkloadSpec) -> int:
    return spec.target_port or HTTP_PORT


def arguments_of(spec: WorkloadSpec) -> tuple[str, ...]:
    """The server's own arguments, with the port where they want it."""
    return tuple(word.replace(_PORT_MARK, str(port_of(spec))) for word in spec.arguments)


def port_variables(spec: WorkloadSpec) -> dict[str, str]:
    """How an HTTP server is told where to listen, as ToolHive does."""
    if spec.transport == "stdio":
        return {"MCP_TRANSPORT": "stdio"}
    port = str(port_of(spec))
    return {
        "MCP_TRANSPORT": spec.transport,
        "MCP_HOST": "127.0.0.1",
        "MCP_PORT": port,
        "FASTMCP_HOST": "127.0.0.1",
        "FASTMCP_PORT": port,
        "PORT": port,
    }
