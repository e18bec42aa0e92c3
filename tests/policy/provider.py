"""npm's `oidc-provider` in a process of its own."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest
from tests.conformance.setup import NODE

SCRIPT = Path(__file__).parent / "oidc_server.mjs"


class Provider:
    """A real OpenID provider."""

    def __init__(self, process: subprocess.Popen[str], issuer: str) -> None:
        self.process = process
        self.issuer = issuer

    def token(self, client: str, resource: str, scope: str = "mcp") -> str:
        form = {"grant_type": "client_credentials", "resource": resource, "scope": scope}
        secret = base64.b64encode(f"{client}:{client}-secret".encode()).decode()
        request = urllib.request.Request(
            f"{self.issuer}/token", urlencode(form).encode(), {"Authorization": f"Basic {secret}"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())["access_token"]

    def rotate(self) -> None:
        self.process.send_signal(signal.SIGUSR1)
        assert self.process.stdout is not None
        while self.process.stdout.readline().strip() != "rotated":
            assert self.process.poll() is None


@contextmanager
def running_provider(script: Path = SCRIPT, **environment: str) -> Iterator[Provider]:
    """A script of ours that says its issuer first."""
    if not (NODE.parents[2] / "oidc-provider").exists() or not NODE.exists():
        pytest.skip("the npm packages are not installed: python -m tests.conformance.setup")
    with subprocess.Popen(
        [str(NODE), str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={"NODE_NO_WARNINGS": "1", **environment},
    ) as process:
        try:
            assert process.stdout is not None
            issuer = process.stdout.readline().strip()
            while not issuer.startswith("http"):
                assert process.poll() is None, "the provider did not start"
                issuer = process.stdout.readline().strip()
            yield Provider(process, issuer)
        finally:
            process.kill()
            process.wait(5)
