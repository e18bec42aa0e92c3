"""`mooring proxy stdio`: bytes both ways, nothing else on stdout."""

from __future__ import annotations

import subprocess
from typing import Any


def test_what_goes_in_comes_out_and_answers_after_the_end_of_input_still_arrive(
    mooring: Any, gateway: Any
) -> None:
    def shout_at_the_end(incoming: Any, outgoing: Any) -> None:
        lines = list(incoming)  # until the other side closed its half
        for line in lines:
            outgoing.write(line.upper())

    gateway.upgraded = shout_at_the_end
    done = mooring("proxy", "stdio", "library", stdin="one\ntwo\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "ONE\nTWO\n", "")


def test_large_messages_pass_both_ways_at_once(mooring: Any, gateway: Any) -> None:
    def echo(incoming: Any, outgoing: Any) -> None:
        while data := incoming.read1(1 << 16):
            outgoing.write(data)

    gateway.upgraded = echo
    text = "x" * 5_000_000 + "\n"
    assert mooring("proxy", "stdio", "library", stdin=text).stdout == text


def test_it_ends_when_the_gateway_ends(mooring: Any, gateway: Any) -> None:
    gateway.upgraded = lambda _incoming, outgoing: outgoing.write(b"bye\n")
    with subprocess.Popen(
        mooring.arguments("proxy", "stdio", "library"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=mooring.environment,
        cwd=mooring.folder,
    ) as process:
        assert process.wait(20) == 0  # although stdin is still open
        assert process.stdout is not None
        assert process.stdout.read() == b"bye\n"


def test_it_ends_when_nobody_reads_its_output(mooring: Any, gateway: Any) -> None:
    def talk(_incoming: Any, outgoing: Any) -> None:
        while True:
            outgoing.write(b"x" * 100_000)

    gateway.handle_error = lambda *_: None  # the stand-in is cut off mid-sentence, as it should be
    gateway.upgraded = talk
    with subprocess.Popen(
        mooring.arguments("proxy", "stdio", "library"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=mooring.environment,
        cwd=mooring.folder,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(10) == b"x" * 10
        process.stdout.close()
        assert process.wait(20) == 0


def test_an_unknown_server_is_said_on_stderr_only(mooring: Any) -> None:
    done = mooring("proxy", "stdio", "nobody")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: no server has this id; known: library\n"
