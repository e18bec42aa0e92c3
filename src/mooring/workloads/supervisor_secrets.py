"""What the secrets of a workload are worth, asked for at the moment of its start and kept nowhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mooring.workloads.runconfig import RunConfig

if TYPE_CHECKING:
    from mooring.workloads.secrets.store import SecretPlaces


class SecretValues:
    """The values by environment variable; for a remote server by header, with the plain headers beside."""

    def __init__(self, places: Callable[[], SecretPlaces]) -> None:
        self._places = places

    async def __call__(self, config: RunConfig) -> Mapping[str, str]:
        fields = config.fields
        headers = fields.header_forward
        if not config.is_remote and not fields.secrets:
            return {}
        if not config.is_remote:
            return await asyncio.to_thread(self._resolve, config.secret_targets)
        secret = headers.add_headers_from_secret
        bearer = config.bearer_secret
        wanted = secret if bearer is None else {**secret, "Authorization": bearer}
        found = await asyncio.to_thread(self._resolve, wanted) if wanted else {}
        if bearer is not None:
            found["Authorization"] = f"Bearer {found['Authorization']}"
        return {**headers.add_plaintext_headers, **found}

    def _resolve(self, wanted: Mapping[str, str]) -> dict[str, str]:
        """Reading a secret may ask another program, or derive a key, and takes its time."""
        from mooring.workloads.secrets.store import open_store  # noqa: PLC0415 - cryptography, if needed

        store = open_store(self._places())
        return {target: store.get(name) for target, name in wanted.items()}
