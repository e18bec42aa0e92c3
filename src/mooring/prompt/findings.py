"""What lint has to say: one finding is one problem with one fix."""

from __future__ import annotations

from typing import Literal

import msgspec

Severity = Literal["error", "warning", "note"]


class Finding(msgspec.Struct, frozen=True):
    """`where` is the way into the definition, for example `inputSchema.properties.filter`."""

    severity: Severity
    rule: str
    tool: str
    where: str
    problem: str
    fix: str
