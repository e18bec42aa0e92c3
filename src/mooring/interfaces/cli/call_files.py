"""The files of a call from the terminal: sent before it, saved after it, both while its session lasts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from mooring.interfaces.cli import artifact, upload
from mooring.interfaces.cli.client import Client, Message, RpcFailed
from mooring.interfaces.cli.control_api import UnixConnection
from mooring.interfaces.cli.failure import Failed


class CallFiles:
    """Hands files to a server of the gateway, and takes what it makes."""

    def __init__(self, client: Client, socket: Path, server: str) -> None:
        self._client = client
        self._socket = socket
        self._server = server
        self._url = ""

    def send(self, path: Path) -> str:
        """Send a file; the handle that a tool gets in its place."""
        upload.checked(path)
        self._url = self._url or self._upload_url()
        connection = UnixConnection(self._socket, upload.STALL_SECONDS)
        return str(upload.send(connection, self._url, path)[0]["upload_handle"])

    def _upload_url(self) -> str:
        try:
            name = f"{self._server}_get_upload_url"
            answer = self._client.request("tools/call", {"name": name, "arguments": {}})
        except RpcFailed as error:
            raise Failed(
                f"`{self._server}` takes no files (an `upload_consumer` adapter makes it): {error}"
            ) from error
        about: Message = answer.get("structuredContent") or {}
        if answer.get("isError") or "upload_url" not in about:
            raise Failed(f"`{self._server}` takes no files: give it an `upload_consumer` adapter")
        return str(about["upload_url"])

    def save(self, result: Message, folder: Path) -> dict[str, Path]:
        """Save what the call made; where each artifact is, by its URI."""
        meta: Message = result.get("_meta") or {}
        made: list[Any] = meta.get("artifacts") or [meta.get("artifact")]
        uris = [str(cast("Message", about)["artifact_uri"]) for about in made if _is_artifact(about)]
        return {uri: artifact.save(self._socket, uri, folder) for uri in uris}


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
