"""Images made here of published packages: a base image, and the package installed in it.

The installation runs in a container of its own: it has the network, through the same proxy as every server,
and what it leaves becomes the image. An image is made once for every wish, base and recipe.
"""

# aiodocker leaves its keyword arguments untyped.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import os
import re
import shlex
import tarfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from aiodocker.exceptions import DockerError

from mooring.workloads.containers.connection import NAME, OWNER, Connection
from mooring.workloads.containers.container import Container
from mooring.workloads.containers.images import find_or_pull
from mooring.workloads.containers.recipes import PLACE, RECIPES, Recipe, Settings, check_system_packages
from mooring.workloads.containers.settings import build_settings
from mooring.workloads.egress.gate import Gate
from mooring.workloads.egress.proxy import EgressProxy
from mooring.workloads.runtime import CannotRun, OnProgress, PackageSource, Resolved
from mooring.workloads.sandbox.errand import ERRAND_SECONDS, install_policy
from mooring.workloads.sources.naming import check_package

_RESOLVED: Final = "mooring.resolved"
_SHOWN_BYTES: Final = 1500
_CERTIFICATES: Final = ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "PIP_CERT")

StartContainer = Callable[[EgressProxy, dict[str, Any], bytes], Awaitable[Container]]


class PackageImages:
    """The images of packages at one engine; `start` starts a container of these settings and files."""

    def __init__(self, connection: Connection, start: StartContainer) -> None:
        self._connection = connection
        self._start = start
        self._locks: dict[str, asyncio.Lock] = {}

    async def image(
        self, source: PackageSource, base: str | None, system: tuple[str, ...], progress: OnProgress
    ) -> Resolved:
        """The image of a package, made if need be; `CannotRun` with the end of its output if it cannot be."""
        check_package(source)
        check_system_packages(system)
        recipe = RECIPES.get(source.scheme)
        if recipe is None:
            raise CannotRun(f"`{source}` cannot be made an image: use `--runtime process`")
        found = await find_or_pull(self._connection.docker, base or recipe.base, progress)
        name = _image_name(source, recipe, str(found["Id"]), system)
        async with self._locks.setdefault(name, asyncio.Lock()):
            known = await self._known(name)
            if known is None:
                progress(f"building an image of {source}")
                known = await self._build(source, recipe, name, str(found["Id"]), system, progress)
                progress(f"built an image of {source}: {known.version}")
            return known

    async def _known(self, name: str) -> Resolved | None:
        try:
            found = await self._connection.docker.images.inspect(name)
            record = base64.b64decode(found["Config"]["Labels"][_RESOLVED])
            resolved = msgspec.json.decode(record, type=Resolved)
        except (DockerError, KeyError, TypeError, ValueError, msgspec.DecodeError):
            return None
        return msgspec.structs.replace(resolved, image=str(found["Id"]))

    async def _build(
        self,
        source: PackageSource,
        recipe: Recipe,
        name: str,
        base: str,
        system: tuple[str, ...],
        progress: OnProgress,
    ) -> Resolved:
        settings = await recipe.settings(source)
        refused: list[str] = []
        policy = await install_policy(settings.hosts)
        proxy = EgressProxy(Gate(policy, lambda event: refused.append(event.target)))
        try:
            wanted = build_settings(base, recipe.script, installs=bool(system))
            container = await self._start(proxy, wanted, _archive(settings, system))
            try:
                await _finish(container, source, refused, progress)
                record = await _read_record(container)
                resolved = recipe.described(source, record)
                await _commit(container, name, resolved)
            finally:
                await container.close()
        finally:
            await proxy.close()
        found = await self._known(name)
        if found is None:
            raise CannotRun(f"the image of {source} was built, and the engine does not know it")
        return found


async def _finish(
    container: Container, source: PackageSource, refused: list[str], progress: OnProgress
) -> None:
    output = bytearray()
    try:
        async with asyncio.timeout(ERRAND_SECONDS):
            while (message := await container.stream.read_out()) is not None:
                output += message.data
                for line in message.data.decode(errors="replace").splitlines():
                    if line.strip():
                        progress(line.strip()[:200])
            ended = await container.wait()
    except TimeoutError as error:
        raise CannotRun(f"installing {source} took longer than {ERRAND_SECONDS:g} seconds") from error
    if ended.code:
        blocked = f"; not allowed to reach {', '.join(dict.fromkeys(refused))}" if refused else ""
        end = output.decode(errors="replace").strip()[-_SHOWN_BYTES:] or ended.reason
        raise CannotRun(f"installing {source} failed{blocked}:\n{end}")


async def _read_record(container: Container) -> Mapping[str, Any]:
    archive = await container.server.get_archive(f"{PLACE}/record.json")
    file = archive.extractfile("record.json")
    assert file is not None
    return cast("dict[str, Any]", msgspec.json.decode(file.read()))


async def _commit(container: Container, name: str, resolved: Resolved) -> None:
    record = base64.b64encode(msgspec.json.encode(resolved)).decode()
    repository, _, tag = name.rpartition(":")
    try:
        await container.server.commit(
            repository=repository,
            tag=tag,
            config={},  # Podman wants one
            # The container's own labels go into the image, and would make others' containers look like ours.
            changes=[f"LABEL {OWNER}=nobody", f"LABEL {NAME}=package", f"LABEL {_RESOLVED}={record}"],
        )
    except DockerError as error:
        raise CannotRun(f"the image could not be kept: {error.message}") from error


def _image_name(source: PackageSource, recipe: Recipe, base: str, system: tuple[str, ...]) -> str:
    readable = re.sub(r"[^a-z0-9]+", "-", source.package.lower()).strip("-")
    key = "\0".join((str(source), recipe.script, base, *sorted(system)))
    return f"localhost/mooring-{source.scheme}-{readable}:{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def _archive(settings: Settings, system: tuple[str, ...]) -> bytes:
    """The files that the installation finds, as an engine unpacks them."""
    variables = {**settings.variables, "SYSTEM_PACKAGES": " ".join(system)}
    files = dict(settings.files)
    if certificates := _certificates():
        files["certificates.pem"] = certificates
        variables |= dict.fromkeys(_CERTIFICATES, f"{PLACE}/certificates.pem")
    lines = (f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
    files[".settings/environment"] = "".join(lines).encode()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for folder in (PLACE, f"{PLACE}/.settings"):
            entry = tarfile.TarInfo(folder.lstrip("/"))
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        for name, data in files.items():
            entry = tarfile.TarInfo(f"{PLACE}/{name}".lstrip("/"))
            entry.mode, entry.size = 0o644, len(data)
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def _certificates() -> bytes:
    """Authorities that this machine was told to trust: it may sit behind a proxy that needs them."""
    for name in _CERTIFICATES:
        file = Path(os.environ.get(name) or "/nonexistent")
        if file.is_file():
            return file.read_bytes()
    return b""
