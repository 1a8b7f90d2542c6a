"""Codecs: decode compressed bytes to the bytes that a format reads, within limits that no input can exceed.

A stream is compressed as a whole (`sequential`: buffers are decoded in stream order) or buffer by buffer (`per_buffer`:
each buffer contains whole frames, and buffers are decoded in any order, on any worker). Decoding runs in C without the
interpreter lock. pyarrow's streams were tried and rejected. They pull bytes from a file, whereas buffers are pushed
here. They also treat an input that ends in the middle of a frame like an input whose next bytes have not arrived yet.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from typing import Any, Final, Literal

import lz4.frame
import msgspec

from runtime.formats.errors import CodecError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["Codec", "Decoder"]

_STEP_BYTES: Final = 1 << 20
_LEAST_STEP_BYTES: Final = 1 << 16
_SIZE_BYTES: Final = 4
_LEAST_WINDOW_LOG: Final = 10
_MOST_WINDOW_LOG: Final = 31
_GZIP_WINDOW: Final = 31  # 15 bits, with gzip's header and checksum


class Codec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Compression of an origin's bytes."""

    name: Literal["gzip", "zstd", "lz4"]
    """gzip members, zstd frames or LZ4 frames; one or several in sequence."""
    mode: Literal["sequential", "per_buffer"] = "sequential"
    """Compression of the stream as a whole, or of each buffer on its own."""
    limit_bytes: int = 64 << 20
    """Greatest number of bytes to which one buffer may decode, and greatest size of a zstd window."""
    most_ratio: int = 1000
    """Greatest number of decoded bytes per compressed byte of a stream; checked beyond ``limit_bytes`` decoded bytes.
    """
    skip_bytes: int = 0
    """Number of decoded bytes that are skipped at the start of a sequential stream, as after a restart."""
    is_sized: bool = False
    """True if each buffer of the mode ``per_buffer`` begins with its decoded size in four bytes, little-endian, which
    is then checked."""

    def __post_init__(self) -> None:
        if self.limit_bytes < 1 or self.most_ratio < 1 or self.skip_bytes < 0:
            raise ValueError(
                f"expected limit_bytes and most_ratio of at least 1 and skip_bytes of at least 0, "
                f"was {self.limit_bytes}, {self.most_ratio} and {self.skip_bytes}"
            )

    @property
    def is_sequential(self) -> bool:
        """True if buffers have to be decoded in stream order."""
        return self.mode == "sequential"

    def decoder(self) -> Decoder:
        """Return a decoder for one stream from its beginning."""
        return Decoder(self)

    def encode_buffer(self, data: bytes) -> bytes:
        """Return a buffer of one frame that `decode_buffer` accepts."""
        frame = bytes(_COMPRESS[self.name](data))
        return len(data).to_bytes(_SIZE_BYTES, "little") + frame if self.is_sized else frame

    def decode_buffer(self, data: bytes) -> bytes:
        """Return the bytes of a buffer of whole frames; raise `CodecError` if damaged or beyond the limit."""
        size = None
        if self.is_sized:
            if len(data) < _SIZE_BYTES:
                raise CodecError(f"expected {_SIZE_BYTES} bytes of decoded size and a {self.name} frame, was {data!r}")
            size = int.from_bytes(data[:_SIZE_BYTES], "little")
            if size > self.limit_bytes:
                raise CodecError(f"expected at most {self.limit_bytes} decoded bytes a buffer, was a size of {size}")
            data = data[_SIZE_BYTES:]
        decoder = Decoder(self)
        decoded = decoder.decode(data)
        decoder.finish()
        if size is not None and len(decoded) != size:
            raise CodecError(f"expected {size} decoded bytes, as the buffer's size says, was {len(decoded)}")
        return decoded


class Decoder:
    """Decoder of one stream in order, by one thread at a time; after an error, later calls raise the same error."""

    def __init__(self, codec: Codec) -> None:
        self._codec = codec
        self._frame: _GzipFrame | _HoldingFrame | None = None  # the open frame
        self._frames = 0
        self._to_skip = codec.skip_bytes
        self._decoded = 0
        self._consumed = 0
        self._error: str | None = None

    def decode(self, data: bytes) -> bytes:
        """Return the bytes that the data adds to the stream, possibly none.

        Raise `CodecError` for bytes that are not a stream of this codec. Also raise it beyond the limits, at the latest
        after one more step of at most 1 MiB.
        """
        if self._error is not None:
            raise CodecError(self._error)
        try:
            return self._skipped(self._decode(data))
        except (zlib.error, zstd.ZstdError, RuntimeError, OSError) as error:
            self._error = (
                f"expected a {self._codec.name} stream, was not one within {len(data)} bytes from compressed byte "
                f"{self._consumed} on, which begin with {data[:16]!r}: {error}"
            )
            raise CodecError(self._error) from None
        except CodecError as error:
            self._error = str(error)
            raise

    def finish(self) -> None:
        """End the stream; raise `CodecError` if a frame lacks its end or the stream is shorter than `skip_bytes`."""
        if self._error is not None:
            raise CodecError(self._error)
        if self._frame is not None:
            raise CodecError(
                f"expected the end of a {self._codec.name} frame, was the end of the stream "
                f"after {self._consumed} compressed bytes"
            )
        if self._to_skip:
            raise CodecError(
                f"expected at least {self._codec.skip_bytes} decoded bytes, was {self._decoded} in the whole stream"
            )

    def _decode(self, data: bytes) -> bytes:
        name, limit = self._codec.name, self._codec.limit_bytes
        parts: list[bytes] = []
        total = 0
        rest = data
        step = min(_STEP_BYTES, max(_LEAST_STEP_BYTES, 8 * len(data)))
        while rest or self._frame is not None:
            if self._frame is None:
                if name == "gzip" and self._frames and not (rest := rest.lstrip(b"\0")):  # the padding of blocks
                    break
                self._frame = _FRAMES[name](self._codec)
                self._frames += 1
            room = min(step, limit - total + 1)
            part, rest, goes_on = self._frame.step(rest, room)
            if part:
                parts.append(part)
                total += len(part)
                self._check(total, len(data))
            if self._frame.is_over:
                self._frame = None
            elif not goes_on:
                break
        self._consumed += len(data)
        self._decoded += total
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _check(self, total: int, length: int) -> None:
        """Raise `CodecError` if the decoded bytes are beyond a limit; called after each step."""
        if total > self._codec.limit_bytes:
            raise CodecError(
                f"expected at most {self._codec.limit_bytes} decoded bytes a buffer, was more out of {length} bytes "
                f"of {self._codec.name} from compressed byte {self._consumed} on"
            )
        decoded, consumed = self._decoded + total, self._consumed + length
        if decoded > self._codec.limit_bytes and decoded > self._codec.most_ratio * consumed:
            raise CodecError(
                f"expected at most {self._codec.most_ratio} decoded bytes per byte of {self._codec.name}, "
                f"was {decoded} bytes out of {consumed}"
            )

    def _skipped(self, decoded: bytes) -> bytes:
        if not self._to_skip:
            return decoded
        cut = min(self._to_skip, len(decoded))
        self._to_skip -= cut
        return decoded[cut:]


class _GzipFrame:
    """One gzip member."""

    def __init__(self, codec: Codec) -> None:
        del codec
        self._member = zlib.decompressobj(_GZIP_WINDOW)

    @property
    def is_over(self) -> bool:
        """True if its last byte has been decoded."""
        return self._member.eof

    def step(self, data: bytes, room: int) -> tuple[bytes, bytes, bool]:
        """Return at most ``room`` decoded bytes, the input for another step, and whether another step may add bytes."""
        part = self._member.decompress(data, room)
        if self._member.eof:
            return part, self._member.unused_data, False
        return part, self._member.unconsumed_tail, len(part) == room


class _HoldingFrame:
    """Frame of a decompressor that keeps the input which it has not decoded."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    @property
    def is_over(self) -> bool:
        """True if its last byte has been decoded."""
        return bool(self._frame.eof)

    def step(self, data: bytes, room: int) -> tuple[bytes, bytes, bool]:
        """Return the same as `_GzipFrame.step`; the input for another step is empty until the frame is over."""
        if not data and self._frame.needs_input:  # an empty buffer; zstd would report a second one as an error
            return b"", b"", False
        part = self._frame.decompress(data, room)
        if self._frame.eof:
            return part, self._frame.unused_data or b"", False
        return part, b"", len(part) == room


def _zstd_frame(codec: Codec) -> _HoldingFrame:
    window_log = min(max(codec.limit_bytes.bit_length() - 1, _LEAST_WINDOW_LOG), _MOST_WINDOW_LOG)
    return _HoldingFrame(zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: window_log}))


def _lz4_frame(codec: Codec) -> _HoldingFrame:
    del codec
    return _HoldingFrame(lz4.frame.LZ4FrameDecompressor())


_COMPRESS: Final[dict[str, Any]] = {"gzip": gzip.compress, "zstd": zstd.compress, "lz4": lz4.frame.compress}
_FRAMES: Final[dict[str, Any]] = {"gzip": _GzipFrame, "zstd": _zstd_frame, "lz4": _lz4_frame}
