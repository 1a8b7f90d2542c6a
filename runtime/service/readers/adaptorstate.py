"""State of installed adaptors: named objects of the object space, committed with the epoch of their rows.

```
Adaptor.apply ──get_or_create──▶ AdaptorState ──"reader/3/state/NAME"──▶ ObjectSpace ──edits──▶ the epoch's commit
```

A call of `Adaptor.apply` that raises may have changed some objects and not others, and the rows of the call are in no
epoch. The error is then stored with the state, and every later call fails with this error, even after a restart.
Otherwise the same rows would be applied a second time, to objects that the failed call has already changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from runtime.relations import AdaptorError
from runtime.state import ObjectSpace, PersistedObject, PersistedValue, Schema

__all__ = ["AdaptorState"]

T = TypeVar("T")
P = TypeVar("P", bound=PersistedObject)
_PLAIN: Final = Schema()
_MOST_OBJECTS: Final = 1_000
"""Greatest number of objects of an adaptor."""


class AdaptorState:
    """Persisted objects of one installed adaptor, of any of the ten types of `runtime.state`.

    Usable within `Adaptor.apply` only, when the object space belongs to the calling worker; elsewhere every method
    raises `AdaptorError`. The adaptor must get its objects again in each call and keep no reference to an object,
    because a checkpoint may read the objects between two calls. There are at most 1,000 objects; the adaptor must bound
    their size.
    """

    def __init__(self) -> None:
        self._space: ObjectSpace | None = None
        self._prefix = self._failed = ""
        self._is_usable = False
        self._is_touched = False

    def bind(self, space: ObjectSpace, reader: str) -> None:
        """Keep the objects in ``space`` from the next call on; their names begin with ``reader``, e.g. ``reader/3``."""
        self._space, self._prefix, self._failed = space, f"{reader}/state/", f"{reader}/failed"

    def during(self, call: Callable[[], T]) -> T:
        """Make a call of the adaptor that may use the objects; raise `AdaptorError` if an earlier call has failed."""
        if self._space is not None and self._failed in self._space:
            reason = self._space.get(PersistedValue[str], self._failed, Schema(str)).value
            raise AdaptorError("expected state that calls have changed completely, was that of a call that failed "
                               f"({reason}): drop the reader and add it again")  # fmt: skip
        self._is_usable, self._is_touched = self._space is not None, False
        try:
            return call()
        except Exception as error:
            if self._is_touched:
                assert self._space is not None
                reason = f"{type(error).__name__}: {error}"
                self._space.create(PersistedValue[str], self._failed, Schema(str), initial=reason)
            raise
        finally:
            self._is_usable = False

    def __contains__(self, name: object) -> bool:
        return f"{self._prefix}{name}" in self._usable_space()

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the objects."""
        return iter([name.removeprefix(self._prefix) for name in self._usable_space() if name.startswith(self._prefix)])

    def get_or_create(
        self, kind: type[P], name: str, schema: Schema = _PLAIN, *, length: int = 0, initial: object = None
    ) -> P:
        """Return the object of this name, created if it is missing; raise the errors of `ObjectSpace.get_or_create`.

        ``kind`` is one of the persisted types of `runtime.state`. For a new array, ``length`` is the number of items,
        and ``initial`` the value of each item; for a new `PersistedValue`, ``initial`` is its value.
        """
        space = self._usable_space()
        full = f"{self._prefix}{name}"
        if full not in space and sum(1 for _ in self) >= _MOST_OBJECTS:
            raise AdaptorError(f"expected at most {_MOST_OBJECTS} objects of an adaptor, was one more: {name}")
        return space.get_or_create(kind, full, schema, length=length, initial=initial)

    def delete(self, name: str) -> None:
        """Delete an object; raises `KeyError` if there is none of this name."""
        self._usable_space().delete(f"{self._prefix}{name}")

    def _usable_space(self) -> ObjectSpace:
        if not self._is_usable or self._space is None:
            raise AdaptorError("expected state to be used within apply, was used elsewhere")
        self._is_touched = True
        return self._space
