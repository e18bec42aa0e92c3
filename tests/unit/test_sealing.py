"""Claims about sealed values and the key behind them."""

from __future__ import annotations

import base64
import os
import stat
import string
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.transports import sealing
from mooring.transports.sealing import KEY_BYTES, Seal, SealBroken

SEAL = Seal(b"k" * KEY_BYTES)
SEALED = SEAL.wrap("purpose", {"call": "c", "n": 1}, ttl_seconds=600)
values = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.text(st.characters(exclude_categories=["Cs"])),
    max_size=5,
)


@given(values, st.text(st.characters(exclude_categories=["Cs"]), max_size=10))
def test_what_was_sealed_comes_back_for_its_purpose(content: dict[str, Any], purpose: str) -> None:
    text = SEAL.wrap(purpose, content, ttl_seconds=60)
    assert set(text) <= set(string.ascii_letters + string.digits + "-_"), "safe in URLs and headers"
    assert SEAL.unwrap(purpose, text) == content


def test_nothing_of_the_content_shows_and_no_two_seals_are_alike() -> None:
    texts = {SEAL.wrap("p", {"principal": "alice"}, ttl_seconds=60) for _ in range(20)}
    assert len(texts) == 20
    for text in texts:
        assert b"alice" not in base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_a_seal_with_any_bit_flipped_is_refused() -> None:
    sealed = base64.urlsafe_b64decode(SEALED + "=" * (-len(SEALED) % 4))
    for bit in range(len(sealed) * 8):
        changed = bytearray(sealed)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(SealBroken):
            SEAL.unwrap("purpose", base64.urlsafe_b64encode(bytes(changed)).rstrip(b"=").decode())


@given(st.integers(0, len(SEALED) - 1), st.sampled_from(string.printable + "é"))
def test_a_seal_with_any_character_changed_is_refused(at: int, character: str) -> None:
    changed = SEALED[:at] + character + SEALED[at + 1 :]
    if changed != SEALED:
        with pytest.raises(SealBroken):
            SEAL.unwrap("purpose", changed)


@pytest.mark.parametrize("length", range(40, 56))
def test_a_seal_has_one_spelling(length: int) -> None:
    """Base64 has spare bits and two alphabets; none of them make a second name for the same thing."""
    sealed = SEAL.wrap("p", {"v": "x" * length}, ttl_seconds=60)
    others = [sealed[:-1] + character for character in string.ascii_letters if character != sealed[-1]]
    others += [sealed + "=", sealed + "==", sealed + "\n", " " + sealed, sealed + "A", sealed[:-1]]
    for plain, url_safe in (("+", "-"), ("/", "_")):
        if url_safe in sealed:
            others.append(sealed.replace(url_safe, plain))
    for other in others:
        with pytest.raises(SealBroken):
            SEAL.unwrap("p", other)
    assert SEAL.unwrap("p", sealed)


@given(
    st.text(max_size=80) | st.binary(max_size=60).map(lambda data: base64.urlsafe_b64encode(data).decode())
)
def test_what_never_was_a_seal_is_refused(text: str) -> None:
    with pytest.raises(SealBroken):
        SEAL.unwrap("purpose", text)


def test_another_purpose_another_key_and_too_late_are_refused() -> None:
    with pytest.raises(SealBroken):
        SEAL.unwrap("purpose2", SEALED)
    with pytest.raises(SealBroken):
        Seal(b"K" * KEY_BYTES).unwrap("purpose", SEALED)
    with pytest.raises(SealBroken, match="expired"):
        SEAL.unwrap("p", SEAL.wrap("p", {}, ttl_seconds=-0.001))


def test_the_key_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "key"
    old = os.umask(0)
    try:
        key = sealing.load_key(path)
    finally:
        os.umask(old)
    assert len(key) == KEY_BYTES
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sealing.load_key(path) == key
    assert [entry.name for entry in path.parent.iterdir()] == ["key"], "nothing is left behind"


def test_what_an_earlier_crash_left_behind_does_not_stop_us(tmp_path: Path) -> None:
    """In a container the process has the same number every time."""
    (tmp_path / f"key.{os.getpid()}").write_bytes(b"half")
    assert len(sealing.load_key(tmp_path / "key")) == KEY_BYTES


def test_all_who_start_at_the_same_time_have_the_same_key(tmp_path: Path) -> None:
    for round_number in range(10):
        path = tmp_path / str(round_number) / "key"
        barrier = threading.Barrier(8)
        keys: list[bytes] = []

        def start(path: Path = path, barrier: threading.Barrier = barrier, keys: list[bytes] = keys) -> None:
            barrier.wait(10)
            keys.append(sealing.load_key(path))

        threads = [threading.Thread(target=start) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert len(keys) == 8
        assert set(keys) == {path.read_bytes()}


@pytest.mark.parametrize("content", [b"", b"short", b"x" * (KEY_BYTES + 1)])
def test_a_file_that_is_no_key_is_named_and_never_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="remove it to have a new one made"):
        sealing.load_key(path)
    assert path.read_bytes() == content
