"""Operations on API keys. The text of a key goes out once, on the Unix socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, TypeVar

from msgspec import Meta, Struct

from mooring.interfaces.rest.operations import ApiError, Call, Operation
from mooring.policy.authentication.api_keys import KeyExists, KeyRecord, KeyStore

T = TypeVar("T")


class Key(Struct, frozen=True):
    """What is known of a key; its text is not."""

    name: str
    id: str
    created: Annotated[float, Meta(description="Unix time.")]
    expires: Annotated[float | None, Meta(description="Unix time; null: never.")]
    scopes: list[str]
    servers: Annotated[list[str], Meta(description="Which servers it opens; none named: all.")]


class Keys(Struct, frozen=True):
    keys: list[Key]


class NewKey(Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=200)]
    expires: Annotated[float | None, Meta(description="Unix time; null: never.")] = None
    scopes: list[str] = []
    servers: list[str] = []


class MadeKey(Struct, frozen=True):
    key: Annotated[str, Meta(description="Its text, which is not shown again.")]
    record: Key


class KeyOperations:
    """What the API does with keys."""

    def __init__(self, store: Callable[[], KeyStore]) -> None:
        self._store = store

    def table(self) -> list[Operation]:
        return [
            Operation("GET", "/keys", "List the API keys.", self.list, Keys, errors=(422,)),
            Operation(
                "POST", "/keys", "Make an API key.", self.create, MadeKey, NewKey,
                errors=(409, 422), local=True,
            ),
            Operation("DELETE", "/keys/{name}", "Take a key away.", self.revoke, Key, errors=(404, 422)),
        ]  # fmt: skip

    async def list(self, _call: Call) -> Keys:
        found = await self._on_disk(lambda store: store.read().keys)
        return Keys([described(record) for record in found])

    async def create(self, call: Call) -> MadeKey:
        body: NewKey = call.body
        record, text = await self._on_disk(
            lambda store: store.create(
                body.name, scopes=tuple(body.scopes), servers=tuple(body.servers), expires=body.expires
            )
        )
        return MadeKey(text, described(record))

    async def revoke(self, call: Call) -> Key:
        name = call.path["name"]
        try:
            return described(await self._on_disk(lambda store: store.revoke(name)))
        except KeyError:
            raise ApiError(404, "no_such_key", f"no key `{name}`", "see `mooring key list`") from None

    async def _on_disk(self, work: Callable[[KeyStore], T]) -> T:
        try:
            return await asyncio.to_thread(work, self._store())
        except KeyExists as error:
            raise ApiError(409, "key_exists", str(error)) from error
        except ValueError as error:
            raise ApiError(422, "keys_unusable", str(error)) from error


def described(record: KeyRecord) -> Key:
    return Key(
        record.name, record.id, record.created, record.expires, list(record.scopes), list(record.servers)
    )
