"""What can go wrong between raw bytes and Arrow batches."""

from __future__ import annotations

__all__ = [
    "CodecError",
    "DuplicateSequenceError",
    "FormatError",
    "OrderCapacityError",
    "SchemaError",
    "SequenceGapError",
]


class FormatError(ValueError):
    """The base of everything that the formats raise."""

    origin_id: int | None = None
    """The origin whose bytes were at fault, where a formatter could tell."""


class SchemaError(FormatError):
    """A schema contradicts itself or names what nobody registered."""


class CodecError(FormatError):
    """Bytes are not of the codec that they should be, or decode to more than its limits allow."""


class DuplicateSequenceError(FormatError):
    """A sequence number arrived a second time."""


class SequenceGapError(FormatError):
    """A stream ended although an earlier raw buffer never came."""


class OrderCapacityError(RuntimeError):
    """More batches wait for an earlier one than the stage may hold."""
