"""What codecs decode, and what they refuse."""

from __future__ import annotations

import gzip
import sys
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from typing import Final

import lz4.frame
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.formats.codecs import Codec
from runtime.formats.errors import CodecError
from tests.harness.examples import examples

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

COMPRESS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "gzip": gzip.compress,
    "zstd": zstd.compress,
    "lz4": lz4.frame.compress,
}
TEXT: Final = b"".join(b"%d,%d,ACME\n" % (n, n * n) for n in range(20_000))
names = pytest.mark.parametrize("name", list(COMPRESS))


def codec(name: str, **options: object) -> Codec:
    return Codec(name=name, **options)  # type: ignore[arg-type]


def decoded(of: Codec, data: bytes, step: int) -> bytes:
    decoder = of.decoder()
    parts = [decoder.decode(data[start : start + step]) for start in range(0, len(data), step)]
    decoder.finish()
    return b"".join(parts)


@names
@pytest.mark.parametrize("step", [1, 7, 4096, 1 << 20])
def test_a_stream_is_decoded_whatever_its_pieces(name: str, step: int) -> None:
    text = TEXT if step > 1 else TEXT[:3000]
    assert decoded(codec(name), COMPRESS[name](text), step) == text


@names
def test_empty_buffers_are_no_error(name: str) -> None:
    data, decoder = COMPRESS[name](TEXT), codec(name).decoder()
    pieces = [b"", b"", data[:9], b"", b"", b"", data[9:1000], b"", b"", data[1000:], b"", b""]
    assert b"".join(map(decoder.decode, pieces)) == TEXT
    decoder.finish()


@names
def test_frames_behind_each_other_are_one_stream(name: str) -> None:
    compress = COMPRESS[name]
    data = compress(TEXT) + compress(b"") + compress(b"end\n")
    for step in (5, 1000, len(data)):
        assert decoded(codec(name), data, step) == TEXT + b"end\n"


def test_zeros_behind_a_gzip_member_are_padding() -> None:
    data = gzip.compress(b"one\n") + bytes(512) + gzip.compress(b"two\n") + bytes(3)
    assert decoded(codec("gzip"), data, 10) == b"one\ntwo\n"
    with pytest.raises(CodecError, match="expected a gzip stream"):
        codec("gzip").decoder().decode(bytes(3) + data)


@names
def test_highly_compressible_data_comes_out_whole(name: str) -> None:
    """The output of one call takes many steps, and the input is consumed long before it is all out."""
    text = bytes(5 << 20)
    for step in (100, 1 << 20):
        assert decoded(codec(name, most_ratio=10**9), COMPRESS[name](text), step) == text


@names
def test_a_stream_that_breaks_off_is_an_error_at_its_end(name: str) -> None:
    data = COMPRESS[name](TEXT)
    for length in (1, len(data) // 2, len(data) - 1):
        decoder = codec(name).decoder()
        decoder.decode(data[:length])
        with pytest.raises(CodecError, match=f"expected the end of a {name} frame, was the end of the stream after"):
            decoder.finish()


@names
def test_an_empty_stream_has_no_bytes(name: str) -> None:
    decoder = codec(name).decoder()
    assert decoder.decode(b"") == b""
    decoder.finish()


@names
def test_other_bytes_are_named_and_the_decoder_stays_broken(name: str) -> None:
    decoder = codec(name).decoder()
    with pytest.raises(CodecError, match=rf"expected a {name} stream, .* from compressed byte 0 on, .*plain,text"):
        decoder.decode(b"plain,text,that is no frame\n")
    with pytest.raises(CodecError, match="expected a"):
        decoder.decode(COMPRESS[name](TEXT))
    with pytest.raises(CodecError, match="expected a"):
        decoder.finish()


@names
def test_changed_bytes_do_not_pass(name: str) -> None:
    whole = lz4.frame.compress(TEXT, content_checksum=True) if name == "lz4" else COMPRESS[name](TEXT)
    data = bytearray(whole)
    data[len(data) // 2] ^= 0xFF
    if name == "zstd":  # its checksum is an option that the default leaves out
        data = bytearray(zstd.compress(TEXT, options={zstd.CompressionParameter.checksum_flag: 1}))
        data[-1] ^= 0xFF
    with pytest.raises(CodecError):
        decoded(codec(name), bytes(data), 1 << 20)


@names
def test_a_bomb_meets_the_limit_without_being_held(name: str) -> None:
    """64 MiB of zeros in one buffer, 1 MiB allowed: refused with no more than a few steps allocated."""
    bomb = COMPRESS[name](bytes(64 << 20))
    limit = 1 << 20
    tracemalloc.start()
    try:
        for decode in (
            codec(name, limit_bytes=limit).decoder().decode,
            codec(name, limit_bytes=limit, mode="per_buffer").decode_buffer,
        ):
            with pytest.raises(CodecError, match=f"at most {limit} decoded bytes a buffer, was more|window|Frame req"):
                decode(bomb)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * limit


@names
def test_a_slow_bomb_meets_the_ratio(name: str) -> None:
    """Each buffer stays below its limit, the stream as a whole decodes to far more than it holds."""
    bomb = COMPRESS[name](bytes(1 << 24))
    bounded = codec(name, limit_bytes=1 << 23, most_ratio=100)
    with pytest.raises(CodecError, match="expected at most 100 decoded bytes per byte"):
        decoded(bounded, bomb, max(1, len(bomb) // 100))


def test_a_window_larger_than_the_limit_is_refused() -> None:
    """A frame of a few bytes can ask for gigabytes of window."""
    parameters: dict[int, int] = {
        zstd.CompressionParameter.window_log: 27,
        zstd.CompressionParameter.enable_long_distance_matching: 1,
    }
    compressor = zstd.ZstdCompressor(options=parameters)
    data = compressor.compress(TEXT) + compressor.flush()
    with pytest.raises(CodecError, match="expected a zstd stream"):
        decoded(codec("zstd", limit_bytes=1 << 20), data, 1 << 20)
    assert decoded(codec("zstd", limit_bytes=1 << 27), data, 1 << 20) == TEXT


@names
def test_the_start_of_a_stream_can_be_left_out(name: str) -> None:
    data = COMPRESS[name](TEXT)
    for skip in (0, 1, 5000, len(TEXT)):
        assert decoded(codec(name, skip_bytes=skip), data, 999) == TEXT[skip:]
    with pytest.raises(CodecError, match=f"expected at least {len(TEXT) + 1} decoded bytes, was {len(TEXT)}"):
        decoded(codec(name, skip_bytes=len(TEXT) + 1), data, 999)


@names
def test_a_buffer_holds_whole_frames(name: str) -> None:
    of, compress = codec(name, mode="per_buffer"), COMPRESS[name]
    assert of.decode_buffer(compress(TEXT)) == TEXT
    assert of.decode_buffer(compress(TEXT) + compress(b"x")) == TEXT + b"x"
    with pytest.raises(CodecError, match="end of a"):
        of.decode_buffer(compress(TEXT)[:-5])


def test_a_sized_buffer_decodes_to_what_it_says() -> None:
    of = codec("zstd", mode="per_buffer", is_sized=True, limit_bytes=1000)
    frame = zstd.compress(b"one\n")
    assert of.decode_buffer(of.encode_buffer(b"one\n")) == b"one\n"
    assert of.decode_buffer((4).to_bytes(4, "little") + frame) == b"one\n"
    with pytest.raises(CodecError, match="expected 5 decoded bytes, as the buffer's size says, was 4"):
        of.decode_buffer((5).to_bytes(4, "little") + frame)
    with pytest.raises(CodecError, match="expected at most 1000 decoded bytes a buffer, was a size of 1001"):
        of.decode_buffer((1001).to_bytes(4, "little") + frame)
    with pytest.raises(CodecError, match="expected 4 bytes of decoded size"):
        of.decode_buffer(b"\1\0")


@pytest.mark.parametrize("options", [{"limit_bytes": 0}, {"most_ratio": 0}, {"skip_bytes": -1}])
def test_limits_that_make_no_sense_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="expected limit_bytes and most_ratio of at least 1"):
        codec("gzip", **options)


@settings(max_examples=examples(60), deadline=None)
@given(data=st.binary(max_size=3000), cuts=st.lists(st.integers(0, 4000), max_size=8), flip=st.integers(0, 8 * 4000))
@names
def test_no_bytes_break_a_decoder(name: str, data: bytes, cuts: list[int], flip: int) -> None:
    """Whatever is fed, it is decoded or refused; what is decoded of a whole stream is what was compressed."""
    compressed = bytearray(COMPRESS[name](data))
    changed = flip // 8 < len(compressed)
    if changed:
        compressed[flip // 8] ^= 1 << flip % 8
    places = [0, *sorted(cut for cut in cuts if cut < len(compressed)), len(compressed)]
    decoder = codec(name, limit_bytes=1 << 16).decoder()
    try:
        parts = [decoder.decode(bytes(compressed[a:b])) for a, b in pairwise(places)]
        decoder.finish()
    except CodecError:
        assert changed
        return
    assert changed or b"".join(parts) == data
