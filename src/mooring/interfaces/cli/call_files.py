"""The files of a call from the terminal: sent before it, saved after it, both while its session lasts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from mooring.interfaces.cli import artifact, upload
from mooring.interfaces.cli.client import Client, Message
from mooring.interfaces.cli.control_api import UnixConnection
from mooring.interfaces.cli.failure import Failed


class CallFiles:
    """Hands files to a server of the gateway, and takes what it makes."""

    def __init__(self, client: Client, socket: Path, server: str) -> None:
        self._client = client
        self._socket = socket
        self._server = server
        self._path = ""
        self.problems: list[str] = []
        """Why something that the call made was not saved."""

    def send(self, path: Path) -> str:
        """Send a file; the handle that a tool gets in its place.

        It goes straight into the session of the call: the tool that says where may have another name.
        """
        upload.checked(path)
        self._path = self._path or upload.link_path(self._socket, self._server).partition("?")[0]
        connection = UnixConnection(self._socket, upload.STALL_SECONDS)
        made = upload.send(connection, self._path, path, self._client.session)
        return str(made[0]["upload_handle"])

    def save(self, result: Message, folder: Path) -> dict[str, Path]:
        """Save what the call made; where each artifact is, by its URI."""
        meta: Message = result.get("_meta") or {}
        made: list[Any] = meta.get("artifacts") or [meta.get("artifact")]
        saved: dict[str, Path] = {}
        for uri in [str(cast("Message", about)["artifact_uri"]) for about in made if _is_artifact(about)]:
            try:
                saved[uri] = artifact.save(self._socket, uri, folder)
            except artifact.Unknown:  # of a gateway behind this one: its link stays in the result
                continue
            except Failed as error:  # what the tool said is not lost for that
                self.problems.append(str(error))
        return saved


def with_places(result: Message, saved: dict[str, Path]) -> Message:
    """The result as it reads when the files are here: their places, not links that have ended."""
    if not saved:
        return result
    blocks = [_placed(block, saved) for block in cast("list[Message]", result.get("content") or [])]
    return {**result, "content": [block for block in blocks if block is not None]}


def _placed(block: Message, saved: dict[str, Path]) -> Message | None:
    if block.get("type") == "resource_link" and block.get("uri") in saved:
        return None
    if block.get("type") != "text":
        return block
    text = str(block.get("text", ""))
    if any(text.startswith("Download ") and f"/{uri.split('/')[4]}/" in text for uri in saved):
        return None
    for uri, path in saved.items():
        text = text.replace(uri, str(path))
    return {**block, "text": text}


def _is_artifact(about: Any) -> bool:
    return isinstance(about, dict) and "artifact_uri" in about
