"""These tests need container engines: `make test-containers` runs them, `make test` does not look at them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.workloads.containers import setup

from mooring.workloads.containers.engines import current_engines

collect_ignore_glob = [] if os.environ.get("MOORING_TEST_CONTAINERS") == "1" else ["test_*.py"]


@pytest.fixture(scope="session", params=["podman", "docker"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """A running engine with the test images; its name."""
    if gone := setup.missing():
        pytest.skip(f"{', '.join(gone)} must be installed: python -m tests.workloads.containers.setup")
    # Not below pytest's folder: an engine leaves mounts and files there that pytest cannot remove.
    folder = Path(tempfile.mkdtemp(prefix=f"mooring-{request.param}-"))
    start = {"podman": setup.podman, "docker": setup.docker}[request.param]
    with start(folder) as socket, pytest.MonkeyPatch.context() as patch:
        patch.setenv(f"MOORING_{request.param.upper()}_SOCKET", str(socket))
        setup.import_image(socket, setup.IMAGE, setup.python_image(folder / "python.tar"))
        yield request.param
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def base_images(engine: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Images with what public base images have, at the engine, as the configuration names them."""
    folder = tmp_path_factory.mktemp("images")
    socket = next(found.socket for found in current_engines() if found.name == engine)
    for name, make in ((setup.NODE_IMAGE, setup.node_image), (setup.UV_IMAGE, setup.uv_image)):
        archive = make(folder / "image.tar")
        setup.import_image(socket, name, archive)
        archive.unlink()
    return {"npx_image": setup.NODE_IMAGE, "uvx_image": setup.UV_IMAGE}
