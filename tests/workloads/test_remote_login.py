"""Remote servers that want to know their user: `mooring run URL` leads through the login."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.policy.caller import Caller
from tests.policy.guarded import Browser, GrantProvider, Guarded, guarded, running_grant_provider
from tests.policy.shelf import Shelf, tool
from tests.support.waiting import eventually
from tests.workloads.daemon import LIMIT_SECONDS, Person, somebody

pytestmark = pytest.mark.e2e
Json = dict[str, Any]


@pytest.fixture(scope="module")
def provider() -> Iterator[GrantProvider]:
    with running_grant_provider() as made:
        yield made


@pytest.fixture
def server(tmp_path: Path, provider: GrantProvider) -> Iterator[Guarded]:
    with guarded(Shelf(tmp_path / "shelf", tool("say")), provider.issuer) as made:
        yield made


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    with somebody(tmp_path) as found:
        yield found


def called(person: Person, name: str) -> Json:
    caller = Caller(f"http://127.0.0.1:{person.port}", name)
    assert caller.initialize().status == 200
    return caller.tool("say").result


def sign_in(person: Person, name: str) -> None:
    """`mooring auth login`, and a browser that opens what it prints."""
    with subprocess.Popen(
        person.command("auth", "login", name, "--no-browser"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=person.environment,
        cwd=person.folder,
    ) as login:
        assert login.stdout is not None
        url = login.stdout.readline().strip()
        assert url.startswith(f"http://127.0.0.1:{person.port}/oauth/login/")
        assert Browser().open(url)[0] == 200
        assert login.wait(LIMIT_SECONDS) == 0


def test_a_remote_server_runs_once_its_user_has_signed_in(person: Person, server: Guarded) -> None:
    told = person("run", server.url, "--name", "notes")
    assert "notes is unauthenticated" in told.stdout
    assert "mooring auth login notes" in told.stderr
    assert person.status("notes") == "unauthenticated"
    assert called(person, "notes")["isError"] is True, "and the answer says where to sign in"

    sign_in(person, "notes")
    eventually(lambda: person.status("notes") == "running", "the login to count")
    assert called(person, "notes")["structuredContent"]["called"] == "say"
    assert server.claims()["sub"] == "ada"
    exported = person("export", "notes").stdout
    assert server.seen[-1].removeprefix("Bearer ") not in exported + person.log()

    person.kill()
    person("list")  # nobody is there
    person("run", server.url, "--name", "other")  # starts the gateway again
    eventually(lambda: person.status("notes") == "running", "the grant to be found again")
    assert called(person, "notes")["structuredContent"]["called"] == "say"
    assert person.status("other") == "unauthenticated", "a login counts for one server"

    person("auth", "logout", "notes")
    eventually(lambda: person.status("notes") == "unauthenticated", "the logout to count")


def test_a_token_that_cannot_be_renewed_for_now_is_tried_again(tmp_path: Path, person: Person) -> None:
    with (
        running_grant_provider(token_seconds=5) as provider,
        guarded(Shelf(tmp_path / "shelf", tool("say")), provider.issuer) as server,
    ):
        person("run", server.url, "--name", "notes")
        sign_in(person, "notes")
        eventually(lambda: person.status("notes") == "running", "the login to count")
        provider.process.kill()
        eventually(lambda: person.status("notes") == "auth_retrying", "the renewal to fail", limit=60)
    assert "cannot be renewed" in person.workload("notes")["status_context"]


def test_another_server_of_the_same_name_is_not_shown_the_token(
    tmp_path: Path, person: Person, server: Guarded, provider: GrantProvider
) -> None:
    person("run", server.url, "--name", "notes")
    sign_in(person, "notes")
    person("rm", "notes")
    assert "notes" not in person("auth", "status").stdout
    with guarded(Shelf(tmp_path / "other", tool("say")), provider.issuer) as other:
        assert "unauthenticated" in person("run", other.url, "--name", "notes").stdout
        assert called(person, "notes")["isError"] is True
        assert set(other.seen) == {""}


def test_a_token_of_ours_that_is_refused_is_no_reason_to_sign_in(person: Person, server: Guarded) -> None:
    told = person("run", server.url, "--name", "notes", "--header", "Authorization=Bearer old")
    assert "does not know us (HTTP 401)" in told.stderr
    assert "asks nobody to sign in" in person("auth", "login", "notes", expect=1).stderr


def test_at_a_terminal_run_waits_for_the_login(person: Person, server: Guarded) -> None:
    ours, theirs = pty.openpty()
    environment = {**person.environment, "BROWSER": "false", "TERM": "xterm", "COLUMNS": "200"}
    with subprocess.Popen(
        person.command("run", server.url, "--name", "notes"),
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=person.folder,
    ) as run:  # fmt: skip
        os.close(theirs)
        seen = _until(ours, rb"http://127\.0\.0\.1:\d+/oauth/login/[\w-]+\r")
        assert Browser().open(seen.strip().decode())[0] == 200
        _until(ours, rb"notes is running")
        assert run.wait(LIMIT_SECONDS) == 0
    os.close(ours)


def _until(terminal: int, pattern: bytes) -> bytes:
    """What the terminal shows that looks like this."""
    seen, deadline = b"", time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 1)[0]:
            try:
                seen += os.read(terminal, 4096)
            except OSError:
                break
        if found := re.search(pattern, seen):
            return found[0]
    raise AssertionError(seen.decode())


def test_where_callers_are_told_apart_each_signs_in_for_themselves(person: Person, server: Guarded) -> None:
    person.configure(auth={"mode": "api_key"})
    assert "notes is running" in person("run", server.url, "--name", "notes").stdout
    callers: list[Caller] = []
    for name in ("anna", "berta"):
        key = person("key", "create", name).stdout.strip()
        headers = {"Authorization": f"Bearer {key}"}
        callers.append(Caller(f"http://127.0.0.1:{person.port}", "notes", headers))
        assert callers[-1].initialize().status == 200
    told = callers[0].tool("say").result
    url = re.search(r"http://\S+/oauth/login/[\w-]+", told["content"][0]["text"])
    assert url is not None
    status, page = Browser().open(f"{url[0]}?go=1")
    assert (status, "is connected" in page) == (200, True)
    assert callers[0].tool("say").result["structuredContent"]["called"] == "say"
    assert callers[1].tool("say").result["isError"] is True, "anna's login is hers alone"
