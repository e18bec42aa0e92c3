"""Images: found at the engine, or pulled with its progress told."""

# aiodocker leaves its keyword arguments untyped.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import re
from typing import Any, Final

import aiodocker
from aiodocker.exceptions import DockerError

from mooring.workloads.runtime import CannotRun, OnProgress

_STEP_PERCENT: Final = 10


async def find_or_pull(docker: aiodocker.Docker, reference: str, progress: OnProgress) -> dict[str, Any]:
    """What the engine knows of an image, after pulling it if need be; `CannotRun` when it cannot be had."""
    try:
        return await docker.images.inspect(reference)
    except DockerError:
        pass
    progress(f"pulling {reference}")
    shown = _Shown(reference, progress)
    try:
        async for step in docker.images.pull(reference, stream=True):
            if "error" in step:
                raise CannotRun(f"`{reference}` cannot be pulled: {step['error']}")
            shown.hear(step)
        found = await docker.images.inspect(reference)
    except DockerError as error:
        raise CannotRun(f"`{reference}` cannot be pulled: {error.message}") from error
    progress(f"pulled {reference}: {digest_of(found, reference)}")
    return found


def digest_of(image: dict[str, Any], reference: str) -> str:
    """The digest that the registry named in the reference knows it by; of one that was made here, its own."""
    digests: list[str] = image.get("RepoDigests") or []
    repository = re.sub(r"(@.*|:[^:/]*)$", "", reference)
    named = [digest for digest in digests if digest.partition("@")[0].endswith(repository)]
    return (named or digests)[0].rpartition("@")[2] if digests else str(image["Id"])


class _Shown:
    """Turns the engine's many small steps into few that people read."""

    def __init__(self, reference: str, progress: OnProgress) -> None:
        self._reference = reference
        self._progress = progress
        self._layers: dict[str, tuple[int, int]] = {}
        self._percent = 0

    def hear(self, step: dict[str, Any]) -> None:
        detail: dict[str, Any] = step.get("progressDetail") or {}
        status, layer = str(step.get("status") or "").strip(), str(step.get("id") or "")
        if not detail.get("total"):
            if status:
                self._progress(f"{layer or self._reference}: {status}")
        elif status == "Downloading":
            self._layers[layer] = (int(detail.get("current") or 0), int(detail["total"]))
            self._show_percent()

    def _show_percent(self) -> None:
        done = sum(current for current, _ in self._layers.values())
        percent = 100 * done // max(1, sum(total for _, total in self._layers.values()))
        if percent >= self._percent + _STEP_PERCENT:
            self._percent = percent - percent % _STEP_PERCENT
            self._progress(f"pulling {self._reference}: {self._percent} %")
