"""Images from a registry: pulled with progress, recorded by their digest, and compared with it later."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.workloads.containers import setup
from tests.workloads.containers.setup import PYTHON
from tests.workloads.containers.tools import engine_place
from tests.workloads.daemon import somebody

pytestmark = pytest.mark.e2e
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.manifest.v1+json"


def ask_engine(engine: str, path: str, *more: str) -> str:
    return setup.ask(f"http://localhost/v1.40{path}", "--unix-socket", str(engine_place(engine)), *more)


def test_a_pulled_image_is_recorded_and_another_one_is_refused(engine: str, tmp_path: Path) -> None:
    (tmp_path / "registry").mkdir()
    with setup.registry(tmp_path / "registry") as address, somebody(tmp_path / "home") as person:
        person.environment[f"MOORING_{engine.upper()}_SOCKET"] = str(engine_place(engine))
        name = f"{address}/tests/server"
        place = engine_place(engine)
        setup.import_image(place, f"{name}:latest", setup.python_image(tmp_path / "python.tar"))
        anonymous = ("-X", "POST", "-H", "X-Registry-Auth: e30=")
        pushed = ask_engine(engine, f"/images/{name}/push?tag=latest&tlsVerify=false", *anonymous)
        manifest = f"http://{address}/v2/tests/server/manifests/latest"
        answer = setup.ask(manifest, "--head", "-H", f"Accept: {MANIFEST}")
        digest = re.search(r"(?i)docker-content-digest: (sha256:\w+)", answer)
        assert digest, pushed[-500:]
        ask_engine(engine, f"/images/{name}:latest?force=true", "-X", "DELETE")

        flags = ("--name", "it", "--runtime", engine, "--verify", "require")
        ran = person("run", *flags, f"{name}:latest", "--", PYTHON, "/server.py")
        assert f"pulling {name}:latest" in ran.stderr
        assert person.workload("it")["integrity"] == digest[1]

        person("stop", "it")
        ask_engine(engine, f"/images/{name}:latest?force=true", "-X", "DELETE")
        (tmp_path / "file").write_text("another image")
        setup.import_image(place, f"{name}:latest", setup.archive_of(tmp_path / "file"))
        refused = person("start", "it", expect=1)
        assert (
            f"it was {name}:latest {digest[1]} and is now"
            in refused.stderr + person.workload("it")["status_context"]
        )
        person("rm", "it")
