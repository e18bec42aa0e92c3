"""The names of secrets, and how a workload asks for one: `NAME,target=ENV`."""

from __future__ import annotations

import re
from typing import Self

from msgspec import Struct

from mooring.workloads.secrets.errors import SecretsError

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./:@ -]{0,254}")
_USE = re.compile(r"(?P<name>[^,]+),target=(?P<target>.+)")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Ours: what we keep for ourselves. People neither see nor set these.
RESERVED = "mooring/"


def check_name(name: str) -> str:
    """The name, if it is one."""
    if not _NAME.fullmatch(name) or name != name.strip():
        raise SecretsError(
            f"`{name}` is no name for a secret: use letters, digits, spaces and `_ . / : @ -`, at most 255"
        )
    return name


def check_own_name(name: str) -> str:
    """As `check_name`, for what a person may name."""
    if name.startswith(RESERVED):
        raise SecretsError(f"names that begin with `{RESERVED}` are Mooring's own: choose another one")
    return check_name(name)


class SecretUse(Struct, frozen=True):
    """One secret in one environment variable."""

    name: str
    target: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `NAME,target=ENV`; `NAME` alone is put into the variable of the same name."""
        match = _USE.fullmatch(text)
        name, target = match.group("name", "target") if match else (text, text)
        if "," in name or not _VARIABLE.fullmatch(target):
            raise SecretsError(
                f"`{text}` must be `NAME,target=VARIABLE`, for example `github,target=GITHUB_TOKEN`"
            )
        return cls(check_name(name), target)

    def __str__(self) -> str:
        return f"{self.name},target={self.target}"
