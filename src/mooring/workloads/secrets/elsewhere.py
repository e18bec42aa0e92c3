"""Providers that only read: the environment, and 1Password through its command `op`."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from typing import Any, cast

from mooring.workloads.secrets.errors import ProviderFailed, ReadOnly, SecretMissing

PREFIX = "MOORING_SECRET_"
# `op` may ask the person for a fingerprint.
OP_SECONDS = 60.0


class Environment:
    """`NAME` is the variable `MOORING_SECRET_NAME`."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def names(self) -> list[str]:
        return sorted(key.removeprefix(PREFIX) for key in self._environment if key.startswith(PREFIX))

    def get(self, name: str) -> str:
        found = self._environment.get(PREFIX + name)
        if found is None:
            raise SecretMissing(name)
        return found

    def set(self, name: str, value: str) -> None:  # noqa: ARG002 - the signature of every provider
        raise ReadOnly(f"the provider `environment` stores nothing: set the variable {PREFIX}{name} instead")

    def delete(self, name: str) -> None:
        raise ReadOnly(
            f"the provider `environment` stores nothing: unset the variable {PREFIX}{name} instead"
        )


class OnePassword:
    """A name is a reference `op://vault/item/field`, or `vault/item/field` for short."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def names(self) -> list[str]:
        items = json.loads(self._run("item", "list", "--format", "json") or "[]")
        return sorted(_reference(cast("dict[str, Any]", item)) for item in items)

    def get(self, name: str) -> str:
        reference = name if name.startswith("op://") else f"op://{name}"
        if reference.count("/") < 4:
            raise ProviderFailed(f"`{name}` must be `vault/item/field`, as in a reference of 1Password")
        return self._run("read", "--no-newline", "--", reference)

    def set(self, name: str, value: str) -> None:  # noqa: ARG002 - the signature of every provider
        raise ReadOnly(f"the provider `1password` only reads: store `{name}` with 1Password itself")

    def delete(self, name: str) -> None:
        raise ReadOnly(f"the provider `1password` only reads: delete `{name}` with 1Password itself")

    def check(self) -> None:
        """Whether `op` is here and signed in."""
        self._run("whoami")

    def _run(self, *words: str) -> str:
        program = shutil.which("op", path=self._environment.get("PATH"))
        if program is None:
            raise ProviderFailed(
                "1Password's command `op` is not installed: get it from 1password.com/downloads"
            )
        try:
            done = subprocess.run(  # noqa: S603 - a fixed program, no shell
                [program, *words],
                capture_output=True,
                text=True,
                timeout=OP_SECONDS,
                check=False,
                env=dict(self._environment),
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired as error:
            raise ProviderFailed("1Password did not answer: unlock it and try again") from error
        if done.returncode != 0:
            reason = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
            raise ProviderFailed(
                f"1Password refused: {reason[0]}; `op whoami` shows whether you are signed in"
            )
        return done.stdout


def _reference(item: dict[str, Any]) -> str:
    vault = cast("dict[str, Any]", item.get("vault") or {})
    return f"{vault.get('name') or vault.get('id')}/{item.get('title') or item.get('id')}"
