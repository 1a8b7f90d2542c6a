"""What can go wrong with state."""

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
    """State cannot be used as asked."""


class CorruptStateError(StateError, DamageError):
    """Stored bytes are not what was stored; the message names the object."""


class KindError(StateError, TypeError):
    """An object is of another kind, or of other types, than asked for."""


class NameTakenError(StateError, ValueError):
    """An object of this name exists."""


class SchemaVersionError(StateError):
    """An object was written by a version of its schema that cannot be read."""


class StateOverflowError(StateError, ArithmeticError):
    """An exact sum needs more bits than a checkpoint can hold; never wrapped, never rounded."""


class StoreError(StateError, OSError):
    """A store did not commit, for a reason of the disk's; nothing was changed and the commit can be tried again."""


class UnknownKindError(KindError):
    """An object is of a kind that this version does not know; it is kept as it is."""
