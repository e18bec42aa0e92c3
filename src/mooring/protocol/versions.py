"""The revisions of the protocol, the two eras they fall into, and what each one can carry."""

from __future__ import annotations

from enum import Enum
from typing import Final

V2024_11_05: Final = "2024-11-05"
V2025_03_26: Final = "2025-03-26"
V2025_06_18: Final = "2025-06-18"
V2025_11_25: Final = "2025-11-25"
V2026_07_28: Final = "2026-07-28"

LEGACY_VERSIONS: Final = (V2025_11_25, V2025_06_18, V2025_03_26, V2024_11_05)
MODERN_VERSIONS: Final = (V2026_07_28,)
LATEST_LEGACY: Final = V2025_11_25
LATEST_MODERN: Final = V2026_07_28


class Era(Enum):
    """Legacy connections start with a handshake and have a session; modern requests stand alone."""

    LEGACY = "legacy"
    MODERN = "modern"


def era_of(version: str) -> Era:
    """Revisions are dates, so they sort; one we have never heard of belongs to the era of its date."""
    return Era.MODERN if version >= V2026_07_28 else Era.LEGACY


def negotiate_legacy(requested: str) -> str:
    """The revision to answer an `initialize` with: the client's own when we speak it, else our newest."""
    return requested if requested in LEGACY_VERSIONS else LATEST_LEGACY


def allows_batches(version: str) -> bool:
    return version == V2025_03_26


def allows_priming_events(version: str) -> bool:
    """Older clients read the empty data of a priming event as a broken message."""
    return version >= V2025_11_25
