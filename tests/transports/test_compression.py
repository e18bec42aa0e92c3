"""Choosing a coding, and unpacking what others have packed."""

from __future__ import annotations

import gzip
import zlib

import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from mooring.transports.compression import (
    PIECE_BYTES,
    BadEncoding,
    compress,
    is_compressible,
    negotiate,
    stream_compressor,
    stream_decoder,
)

CHOICES = {
    b"gzip": b"gzip",
    b"zstd": b"zstd",
    b"gzip, deflate, br, zstd": b"zstd",
    b"gzip, deflate": b"gzip",
    b"GZIP": b"gzip",
    b"x-gzip": b"gzip",
    b"gzip;q=1.0, zstd;q=0.5": b"gzip",
    b"gzip; q=0.5 , zstd ; q=0.6": b"zstd",
    b"gzip;q=0, zstd;q=0": None,
    b"gzip;q=0, *": b"zstd",
    b"*;q=0": None,
    b"*": b"zstd",
    b"identity": None,
    b"identity, gzip;q=0.5": None,
    b"identity;q=0.5, gzip;q=0.5": b"gzip",
    b"br": None,
    b"": None,
    b"gzip;q=nonsense": None,
    b"gzip;q=7": None,
    b";;;,,,=": None,
}


@pytest.mark.parametrize("accepted", CHOICES)
def test_the_best_coding_of_the_client_is_chosen(accepted: bytes) -> None:
    assert negotiate(accepted) == CHOICES[accepted]


@given(st.binary(max_size=60))
def test_any_accept_encoding_gives_an_answer(accepted: bytes) -> None:
    assert negotiate(accepted) in (None, b"gzip", b"zstd")


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        (b"application/json", True),
        (b"Application/JSON; charset=utf-8", True),
        (b"text/event-stream", True),
        (b"text/html", True),
        (b"application/problem+json", True),
        (b"image/png", False),
        (b"application/octet-stream", False),
        (b"application/zip", False),
    ],
)
def test_only_text_is_compressed(content_type: bytes, expected: bool) -> None:
    assert is_compressible(content_type) is expected


PACKERS = {
    b"gzip": gzip.compress,
    b"x-gzip": gzip.compress,
    b"deflate": zlib.compress,
    b"zstd": zstandard.ZstdCompressor().compress,
}


def decode(coding: bytes, data: bytes, step: int = 1 << 30) -> bytes:
    pieces: list[bytes] = []
    decoder = stream_decoder(coding)
    assert decoder is not None
    for start in range(0, len(data), step):
        decoder.decode(data[start : start + step], pieces.append)
    decoder.finish()
    assert all(len(piece) <= PIECE_BYTES for piece in pieces)
    return b"".join(pieces)


@pytest.mark.parametrize("coding", PACKERS)
@given(data=st.binary(max_size=500), repeat=st.integers(1, 2_000), step=st.integers(1, 300))
def test_packed_bytes_unpack_however_they_are_cut(coding: bytes, data: bytes, repeat: int, step: int) -> None:
    assert decode(coding, PACKERS[coding](data * repeat), step) == data * repeat


@given(data=st.binary(max_size=500))
def test_raw_deflate_is_understood_too(data: bytes) -> None:
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(data) + packer.flush()
    assert decode(b"deflate", packed, 1) == data


def test_several_members_after_each_other_are_one_body() -> None:
    for coding in (b"gzip", b"zstd"):
        assert decode(coding, PACKERS[coding](b"one ") + PACKERS[coding](b"two"), 3) == b"one two"


@pytest.mark.parametrize("coding", [b"gzip", b"deflate"])
def test_packed_bytes_that_end_early_are_damaged(coding: bytes) -> None:
    packed = PACKERS[coding](b"some text that is long enough")
    for end in range(1, len(packed)):
        with pytest.raises(BadEncoding):
            decode(coding, packed[:end])


@pytest.mark.parametrize("coding", PACKERS)
@given(data=st.binary(min_size=1, max_size=200))
@example(data=b"\x03\x00\x00")
def test_random_bytes_are_refused_or_decoded_but_never_crash(coding: bytes, data: bytes) -> None:
    try:
        decoded = decode(coding, data)
    except BadEncoding:
        return
    assert decode(coding, data, step=1) == decoded


@pytest.mark.parametrize("coding", [b"gzip", b"zstd"])
@given(pieces=st.lists(st.binary(min_size=1, max_size=300), max_size=20))
def test_every_piece_of_a_packed_stream_unpacks_at_once(coding: bytes, pieces: list[bytes]) -> None:
    compressor, decoder = stream_compressor(coding), stream_decoder(coding)
    assert decoder is not None
    for piece in pieces:
        received: list[bytes] = []
        decoder.decode(compressor.piece(piece), received.append)
        assert b"".join(received) == piece
    decoder.decode(compressor.finish(), lambda _: pytest.fail("the end of a stream is not data"))
    decoder.finish()


@pytest.mark.parametrize("coding", [b"gzip", b"zstd"])
def test_two_streams_do_not_disturb_each_other(coding: bytes) -> None:
    first, second = stream_compressor(coding), stream_compressor(coding)
    one = first.piece(b"a" * 1_000)
    two = second.piece(b"b" * 1_000)
    one += first.piece(b"c" * 1_000) + first.finish()
    two += second.finish()
    assert decode(coding, one) == b"a" * 1_000 + b"c" * 1_000
    assert decode(coding, two) == b"b" * 1_000
    assert decode(coding, compress(coding, b"whole")) == b"whole"


@pytest.mark.parametrize("coding", PACKERS)
def test_a_bomb_can_be_stopped_before_it_has_grown(coding: bytes) -> None:
    bomb = PACKERS[coding](bytes(64 << 20))
    decoder = stream_decoder(coding)
    assert decoder is not None
    total = 0

    def count(piece: bytes) -> None:
        nonlocal total
        total += len(piece)
        if total > 1 << 20:
            raise OverflowError

    with pytest.raises(OverflowError):
        decoder.decode(bomb, count)
    assert total <= (1 << 20) + PIECE_BYTES


def test_an_unknown_coding_has_no_decoder() -> None:
    assert stream_decoder(b"br") is None
    assert stream_decoder(b"gzip, gzip") is None
