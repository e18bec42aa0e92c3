"""For all tests: what could not be set up here is said loudly, and property tests can run for longer."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import pytest
from hypothesis import is_hypothesis_test, settings

KEPT = ("MOORING_TEST_CONTAINERS", "MOORING_DOCKER_SOCKET", "MOORING_PODMAN_SOCKET")
"""Which tests are wanted, and where the engines are, is for whoever runs them to say."""
SKIPPED_STATUS = 6
"""Neither passed nor failed (1), which `make test` would try again."""


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Nothing of ours runs on trio; a test of both event loops of asyncio says so itself."""
    return "asyncio"


def pytest_configure(config: pytest.Config) -> None:
    """Nothing here sees or changes the secrets, keys and settings of whoever runs the tests."""
    folder = tempfile.TemporaryDirectory(prefix="mooring-tests-")
    config.add_cleanup(folder.cleanup)
    for name in [name for name in os.environ if name.startswith("MOORING_") and name not in KEPT]:
        del os.environ[name]
    os.environ["XDG_DATA_HOME"] = f"{folder.name}/share"
    os.environ["XDG_CONFIG_HOME"] = f"{folder.name}/config"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fuzz", type=int, default=1, metavar="N", help="N times as many examples per property")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`make fuzz`: a profile would not do, because what a test says about its own examples goes before it."""
    factor = int(config.getoption("--fuzz") or 1)
    done: set[int] = set()
    for item in items if factor > 1 else []:
        function: Any = getattr(item, "obj", None)
        if is_hypothesis_test(function) and id(function) not in done:  # several items may share one
            done.add(id(function))
            old = function._hypothesis_internal_use_settings
            more = settings(old, max_examples=old.max_examples * factor, deadline=None)
            function._hypothesis_internal_use_settings = more


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """One loud line at the very end, where it cannot be overlooked."""
    reasons = _reasons(terminalreporter)
    if reasons:
        verdict = "a failure, because CI=true" if _is_ci() else "the rest was tested"
        line = f"NOT TESTED ON THIS MACHINE ({verdict}): {'; '.join(reasons)}"
        terminalreporter.write_line(line, red=True, bold=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI a skipped test is a failed one."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if _is_ci() and reporter is not None and _reasons(reporter) and session.exitstatus in (0, 1):
        session.exitstatus = SKIPPED_STATUS


def _is_ci() -> bool:
    return os.environ.get("CI") == "true"


def _reasons(reporter: Any) -> list[str]:
    skipped = [report.longrepr for report in reporter.stats.get("skipped", [])]
    texts = (str(entry[2]) if isinstance(entry, tuple) else str(entry) for entry in skipped)
    return sorted({text.removeprefix("Skipped: ").splitlines()[0] for text in texts})
