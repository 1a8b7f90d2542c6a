"""Errors of the conversion of raw bytes to Arrow batches."""

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
    """Base of the errors of formats except `OrderCapacityError`."""

    origin_id: int | None = None
    """Origin of the bytes at fault, if known."""


class SchemaError(FormatError):
    """A schema contradicts itself or has an unknown name."""


class CodecError(FormatError):
    """Bytes do not follow their codec, or decode to more than its limits allow."""


class DuplicateSequenceError(FormatError):
    """A sequence number arrived a second time."""


class SequenceGapError(FormatError):
    """A stream ended although an earlier raw buffer never came."""


class OrderCapacityError(RuntimeError):
    """More batches wait for a missing earlier one than the capacity allows."""
