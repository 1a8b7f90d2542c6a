"""Lifetimes by explicit reference counts: a callback is called when its last reference is released.

```
owner, reference = callback(call)       reference.copy() ──▶ one more reference
release() of the last reference ──▶ call()                  owner.release() ──▶ disarmed: call() is never made
```

Nothing depends on the garbage collector: the owner of a reference releases it, by a call or as a context manager. An
object that must not keep its target alive, such as a task that waits, has a `weakref.ref` to it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from runtime.engine.errors import EngineError

__all__ = ["CallbackOwner", "CallbackReference", "callback"]


class _Callback:
    """State shared by owner and references. `count` and `call` are accessed with `lock` held."""

    __slots__ = ("call", "count", "lock")

    def __init__(self, call: Callable[[], None]) -> None:
        self.lock = threading.Lock()
        self.count = 1
        self.call: Callable[[], None] | None = call


class CallbackOwner:
    """Owner of a callback; releasing the owner disarms the callback. Thread-safe."""

    __slots__ = ("_callback",)

    def __init__(self, shared: _Callback) -> None:
        self._callback = shared

    @property
    def references(self) -> int:
        """Number of references that have not been released."""
        return self._callback.count

    def refer(self) -> CallbackReference:
        """Return a new reference.

        Raise EngineError if no reference is left, because the callback was called or disarmed.
        """
        with self._callback.lock:
            if not self._callback.count:
                raise EngineError(
                    "expected a callback with a reference, was a callback whose last reference was released"
                )
            self._callback.count += 1
        return CallbackReference(self._callback)

    def release(self) -> None:
        """Disarm the callback, unless the last reference was released before; may be called twice."""
        with self._callback.lock:
            self._callback.call = None

    def __enter__(self) -> CallbackOwner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class CallbackReference:
    """Reference that defers the callback until it is released. Thread-safe."""

    __slots__ = ("_callback", "_is_held")

    def __init__(self, shared: _Callback) -> None:
        self._callback = shared
        self._is_held = True  # accessed with the callback's lock held

    def copy(self) -> CallbackReference:
        """Return one more reference; raise EngineError if this reference has been released."""
        with self._callback.lock:
            if not self._is_held:
                raise EngineError("expected a reference that was not released, was a released reference")
            self._callback.count += 1
        return CallbackReference(self._callback)

    def release(self) -> None:
        """Release the reference; releasing the last one makes the call, on the same thread. May be called twice."""
        with self._callback.lock:
            if not self._is_held:
                return
            self._is_held = False
            self._callback.count -= 1
            if self._callback.count:
                return
            call, self._callback.call = self._callback.call, None
        if call is not None:
            call()

    def __enter__(self) -> CallbackReference:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def callback(call: Callable[[], None]) -> tuple[CallbackOwner, CallbackReference]:
    """Return the owner and the first reference of a callback.

    >>> owner, first = callback(lambda: print("the last one has gone"))
    >>> second = first.copy()
    >>> first.release()
    >>> second.release()
    the last one has gone
    """
    shared = _Callback(call)
    return CallbackOwner(shared), CallbackReference(shared)
