"""Claims about revisions and eras."""

from __future__ import annotations

import pytest

from mooring.protocol import versions
from mooring.protocol.versions import LATEST_LEGACY, LEGACY_VERSIONS, MODERN_VERSIONS, Era


def test_every_revision_belongs_to_its_era() -> None:
    assert {versions.era_of(version) for version in LEGACY_VERSIONS} == {Era.LEGACY}
    assert {versions.era_of(version) for version in MODERN_VERSIONS} == {Era.MODERN}
    assert versions.era_of("2027-01-01") is Era.MODERN
    assert versions.era_of("2024-10-07") is Era.LEGACY


@pytest.mark.parametrize("version", LEGACY_VERSIONS)
def test_a_client_gets_the_legacy_revision_it_asks_for(version: str) -> None:
    assert versions.negotiate_legacy(version) == version


@pytest.mark.parametrize("version", ["", "1.0", "2024-10-07", "2099-01-01", *MODERN_VERSIONS])
def test_a_client_of_another_revision_is_offered_our_newest_legacy_one(version: str) -> None:
    assert versions.negotiate_legacy(version) == LATEST_LEGACY


def test_batches_exist_in_one_revision_and_priming_events_since_another() -> None:
    everything = (*LEGACY_VERSIONS, *MODERN_VERSIONS)
    assert [version for version in everything if versions.allows_batches(version)] == ["2025-03-26"]
    assert [version for version in LEGACY_VERSIONS if versions.allows_priming_events(version)] == [
        "2025-11-25"
    ]
