"""Errors of state."""

from __future__ import annotations

from deltabook.wire.errors import DamageError

__all__ = [
    "CorruptStateError",
    "KindError",
    "NameTakenError",
    "SchemaVersionError",
    "StateError",
    "StateOverflowError",
    "StoreError",
    "UnknownKindError",
]


class StateError(RuntimeError):
    """State cannot be used as requested."""


class CorruptStateError(StateError, DamageError):
    """Stored bytes differ from what was stored; the message names the object."""


class KindError(StateError, TypeError):
    """An object is of another kind, or of other types, than requested."""


class NameTakenError(StateError, ValueError):
    """An object of this name exists."""


class SchemaVersionError(StateError):
    """An object's schema version is newer than the requested version, or is older and there is no migration."""


class StateOverflowError(StateError, ArithmeticError):
    """An exact sum needs more bits than its stored form has; sums are never wrapped or rounded."""


class StoreError(StateError, OSError):
    """A store could not read or commit because of the disk; nothing was changed, and the call can be repeated."""


class UnknownKindError(KindError):
    """An object is of a kind that this version does not support; the object is not changed."""
