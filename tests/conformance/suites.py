"""Runs one configuration of the official suite and reads what it wrote."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.conformance.configurations import (
    AUTH_SCENARIOS,
    CLIENT_SCENARIOS,
    EXTENSIONS,
    TASK_SCENARIOS,
    AuthoredRun,
    ClientRun,
    Configuration,
    Reference,
    ServerRun,
    era_of,
)
from tests.conformance.coverage import Run, read_run
from tests.conformance.processes import (
    running_authored_fixture,
    running_fixture,
    running_gateway,
    warm_fixture_command,
)
from tests.conformance.setup import NODE, ROOT, suite_entry

_PACKAGES = {"stable": "conformance-stable", "alpha": "conformance-alpha"}
_DRIVER = ROOT / "tests/conformance/client_driver.py"
_SUITE_SECONDS = 300
_CLIENT_MILLISECONDS = 60_000
# Task scenarios mostly wait for tasks; they do not disturb each other.
_TASK_SCENARIOS_AT_ONCE = 3
# Each starts a client, and a gateway of its own.
_CLIENT_SCENARIOS_AT_ONCE = 2


def run_directly(reference: Reference, folder: Path) -> Run:
    """The reference: the suite and the fixture (or our driver) with nothing between them."""
    folder.mkdir(parents=True)
    if reference.kind in ("client", "auth"):
        return _run_client_scenarios(reference, folder, era_of(reference.wire), through_gateway=False)
    tasks = reference.kind == "tasks"
    with running_fixture("http", "dual", folder / "fixture.log", tasks=tasks) as url:
        return run_server_suite(reference, url, folder)


def run_configuration(configuration: Configuration, folder: Path) -> Run:
    """Through the gateway, or directly against a server that we made."""
    folder.mkdir(parents=True)
    if isinstance(configuration, AuthoredRun):
        with running_authored_fixture(folder / "fixture.log") as url:
            return run_server_suite(configuration.reference, url, folder)
    if isinstance(configuration, ClientRun):
        era = configuration.client_era
        return _run_client_scenarios(configuration.reference, folder, era, through_gateway=True)
    with ExitStack() as stack:
        server = _gateway_server(configuration, folder, stack)
        url = stack.enter_context(running_gateway(server, folder))
        return run_server_suite(configuration.reference, url, folder)


def _gateway_server(configuration: ServerRun, folder: Path, stack: ExitStack) -> dict[str, Any]:
    tasks = configuration.reference.kind == "tasks"
    if configuration.transport == "stdio":
        command = stack.enter_context(warm_fixture_command(configuration.era, folder, tasks=tasks))
        share = {"share": configuration.share} if configuration.share else {}
        return {"workload": {"run": command, "transport": "stdio"}, **share}
    fixture = running_fixture(configuration.transport, configuration.era, folder / "fixture.log", tasks=tasks)
    return {"upstream": {"url": stack.enter_context(fixture), "transport": "auto", "era": "auto"}}


def run_server_suite(reference: Reference, url: str, folder: Path) -> Run:
    results = folder / "results"
    arguments = ["server", "--url", url, "-o", str(results)]
    if reference.kind == "tasks":
        each = [
            [*arguments, "--scenario", name, "--spec-version", reference.wire, "--force"]
            for name in TASK_SCENARIOS
        ]
        _run_suites(reference, each, folder, at_once=_TASK_SCENARIOS_AT_ONCE)
    elif reference.suite == "stable":
        _run_suite(reference, [*arguments, "--suite", "all"], folder)
    else:
        _run_suite(reference, [*arguments, "--suite", "all", "--spec-version", reference.wire], folder)
    return read_run(results, prefix="server-")


def _run_client_scenarios(
    reference: Reference, folder: Path, client_era: str, *, through_gateway: bool
) -> Run:
    results = folder / "results"
    driver = [sys.executable, str(_DRIVER), "--era", client_era]
    if through_gateway:
        driver += ["--through", str(folder)]
    common = ["client", "--command", " ".join(driver), "-o", str(results)]
    common += ["--timeout", str(_CLIENT_MILLISECONDS)]
    if reference.kind == "auth":
        scenarios = AUTH_SCENARIOS[reference.suite, reference.wire]
    else:
        scenarios = CLIENT_SCENARIOS[reference.wire]
    each = [[*common, *_revision(reference, name), "--scenario", name] for name in scenarios]
    _run_suites(reference, each, folder, at_once=_CLIENT_SCENARIOS_AT_ONCE)
    return read_run(results)


def _revision(reference: Reference, scenario: str) -> list[str]:
    """The stable suite knows by itself; some scenarios are about a revision of their own."""
    if reference.suite == "stable":
        return []
    version = ["--spec-version", "2025-03-26" if "2025-03-26" in scenario else reference.wire]
    return [*version, "--force"] if scenario in EXTENSIONS else version


def _run_suites(reference: Reference, each: Sequence[list[str]], folder: Path, *, at_once: int) -> None:
    with ThreadPoolExecutor(at_once) as pool:
        for finished in [pool.submit(_run_suite, reference, arguments, folder) for arguments in each]:
            finished.result()


def _run_suite(reference: Reference, arguments: Iterable[str], folder: Path) -> None:
    """Run the suite to its end. Its exit code says less than its results: those are read instead."""
    entry = suite_entry(_PACKAGES[reference.suite])
    with (folder / "suite.log").open("a") as log:
        subprocess.run(
            [str(NODE), str(entry), *arguments],
            cwd=ROOT,
            stdout=log,
            stderr=log,
            timeout=_SUITE_SECONDS,
            check=False,
        )
