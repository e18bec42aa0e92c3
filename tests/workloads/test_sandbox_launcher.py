"""The launcher, compiled and in Python: both follow the same orders and say the same when they cannot."""

from __future__ import annotations

import hashlib
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.workloads.sandbox import launcher, launcher_program
from mooring.workloads.sandbox.bubblewrap import Files, compiled_launcher
from mooring.workloads.sandbox.launcher import READ, WRITE, landlock_version
from mooring.workloads.sandbox.orders import Orders, reason

LIMIT_SECONDS = 30


@pytest.fixture(params=["compiled", "python"])
def command(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, ...]:
    if request.param == "python":
        return (sys.executable, "-I", "-S", launcher.__file__)
    if compiled_launcher() is None:
        pytest.skip("the launcher is compiled for x86-64 and 64-bit ARM only")
    files = Files(tmp_path / "files")
    files.write("somebody", os.getuid(), os.getgid(), tmp_path)
    return files.launcher_outside()


def launched(command: tuple[str, ...], orders: Orders) -> tuple[str, bytes, list[int]]:
    """What the server wrote, what the launcher said last, and the sockets it handed out."""
    ours, theirs = socket.socketpair()
    ours.settimeout(LIMIT_SECONDS)
    with ours, theirs:
        process = subprocess.Popen(
            [*command, str(theirs.fileno())], pass_fds=[theirs.fileno()], stdout=subprocess.PIPE, text=True
        )
        theirs.close()
        ours.sendall(orders.encode())
        sockets: list[int] = []
        if orders.ports:
            data, sockets, _, _ = socket.recv_fds(ours, 1, 8)
            assert data == b"s"
        said = ours.recv(4096)
        output, _ = process.communicate(timeout=LIMIT_SECONDS)
    return output, said, sockets


def test_what_is_compiled_is_what_the_source_says() -> None:
    source = Path(launcher.__file__).with_suffix(".c")
    assert hashlib.sha256(source.read_bytes()).hexdigest() == launcher_program.SOURCE


def test_the_server_is_limited_locked_in_and_has_exactly_its_environment(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    secret, open_folder = tmp_path / "secret", tmp_path / "open"
    secret.write_text("hidden")
    open_folder.mkdir()
    script = (
        f'ulimit -n; echo "$WORD"; env | wc -l; cat {secret}; echo written > {open_folder}/file; echo end'
    )
    system = [(path, READ) for path in ("/usr", "/bin", "/lib", "/lib64", "/etc")]
    orders = Orders(
        ["sh", "-c", script],
        {"PATH": "/nowhere:/usr/bin:/bin", "WORD": "två ord"},
        ports=[0],
        limits=[(resource.RLIMIT_NOFILE, 77), (resource.RLIMIT_CORE, 0)],
        paths=[*system, ("/dev", WRITE), (str(open_folder), WRITE), ("/not/there", READ)],
    )
    output, said, sockets = launched(command, orders)
    try:
        lines = output.splitlines()
        assert lines[:2] == ["77", "två ord"]
        assert int(lines[2]) <= 4, "only what was ordered, and what the shell adds itself"
        assert lines[-1] == "end"
        assert ("hidden" in lines) is (landlock_version() < 1)
        assert (open_folder / "file").read_text() == "written\n"
        assert said == b"", "silence: the server runs"
        assert len(sockets) == 2
        with socket.socket(fileno=os.dup(sockets[0])) as listening:
            assert listening.getsockname()[0] == "127.0.0.1"
            assert listening.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
    finally:
        for descriptor in sockets:
            os.close(descriptor)


def test_what_cannot_be_run_is_said(command: tuple[str, ...], tmp_path: Path) -> None:
    for argv in (["/not/there"], ["not-there"]):
        _, said, _ = launched(command, Orders(argv, {"PATH": "/usr/bin"}))
        assert reason(said).endswith(": No such file or directory")
    plain = tmp_path / "plain"
    plain.write_text("#!/bin/sh\n")
    _, said, _ = launched(command, Orders([str(plain)], {}))
    assert reason(said).endswith(": Permission denied")
