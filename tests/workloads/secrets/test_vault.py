"""The encrypted file under kill -9 and with several writers, and what reads `NAME,target=ENV`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.workloads.secrets.errors import NotSetUp, SecretMissing, SecretsError
from mooring.workloads.secrets.names import SecretUse
from mooring.workloads.secrets.store import SecretPlaces, open_store, set_up

LIMIT_SECONDS = 60

WRITER = """
import sys
from pathlib import Path
from mooring.workloads.secrets.store import SecretPlaces, open_store
store = open_store(SecretPlaces(Path(sys.argv[1]), {}))
print("ready", flush=True)
for number in range(int(sys.argv[3])):
    store.set(f"{sys.argv[2]}{number}", "x" * 5000)
    print(number, flush=True)
"""


@pytest.fixture
def places(tmp_path: Path) -> SecretPlaces:
    made = SecretPlaces(tmp_path / "data", {})
    set_up(made, "encrypted", "file")
    return made


def writer(places: SecretPlaces, prefix: str, count: int) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", WRITER, str(places.folder), prefix, str(count)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def test_two_processes_that_write_at_once_lose_nothing(places: SecretPlaces) -> None:
    processes = [writer(places, prefix, 40) for prefix in ("a", "b")]
    for process in processes:
        assert process.wait(LIMIT_SECONDS) == 0
        assert process.stdout is not None
        process.stdout.close()
    wanted = {f"{prefix}{number}" for prefix in ("a", "b") for number in range(40)}
    assert set(open_store(places).names()) == wanted


@pytest.mark.parametrize("after", [0, 3, 7])
def test_a_writer_that_is_killed_loses_nothing_acknowledged(places: SecretPlaces, after: int) -> None:
    with writer(places, "k", 100_000) as process:
        assert process.stdout is not None
        acknowledged = -1
        for line in process.stdout:
            if line.strip() == "ready":
                continue
            acknowledged = int(line)
            if acknowledged >= after:
                break
        os.kill(process.pid, signal.SIGKILL)
    names = open_store(places).names()
    assert [f"k{number}" for number in range(acknowledged + 1) if f"k{number}" not in names] == []
    # And the next writer is not held up by the dead one's lock.
    open_store(places).set("after", "1")
    assert open_store(places).get("after") == "1"


def test_a_writer_sees_what_another_store_wrote(places: SecretPlaces) -> None:
    first, second = open_store(places), open_store(places)
    first.set("a", "1")
    second.set("b", "2")
    assert first.names() == second.names() == ["a", "b"]


def test_our_own_secrets_are_not_listed(places: SecretPlaces) -> None:
    store = open_store(places)
    store.set("mooring/undo/1", "x")
    assert store.names() == []
    assert store.get("mooring/undo/1") == "x"


def test_a_workload_gets_its_secrets_by_variable(places: SecretPlaces) -> None:
    store = open_store(places)
    store.set("github", "t0ken")
    store.set("KEY", "k")
    assert store.resolve(["github,target=GITHUB_TOKEN", SecretUse("KEY", "API"), "KEY"]) == {
        "GITHUB_TOKEN": "t0ken",
        "API": "k",
        "KEY": "k",
    }
    with pytest.raises(SecretMissing, match="there is no secret `gone`"):
        store.resolve(["gone,target=X"])


@pytest.mark.parametrize("text", ["", "a,target=", "a,target=1X", "a,b", ",target=X", "a,target=X=Y"])
def test_a_use_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(SecretsError):
        SecretUse.parse(text)


def test_a_use_reads_as_it_was_written() -> None:
    assert str(SecretUse.parse("my token,target=TOKEN")) == "my token,target=TOKEN"


def test_without_setup_there_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(NotSetUp):
        open_store(SecretPlaces(tmp_path, {}))
