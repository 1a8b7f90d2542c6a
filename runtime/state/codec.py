"""Encoding of values as MessagePack, with extensions for the types that MessagePack lacks.

Plain Python values are None, bool, int of any size, float, str, bytes, Decimal, tuple, list, dict, set and frozenset,
in any nesting. They need no declared type, and are decoded to equal values of the same type. All other values that
msgspec supports (structs, dataclasses, enums, datetimes) need a declared type.

A codec belongs to one *object* of the state, such as a map or a list (`runtime.state.objects`). If an object has a
declared type, a value of another type is refused when it is set in the object, not later when the object is saved.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from types import NoneType
from typing import Any, Final, get_origin

import msgspec

from runtime.state.errors import CorruptStateError

__all__ = ["Codec", "type_name"]

_INTEGER, _TUPLE, _DECIMAL, _DICT, _SET, _FROZENSET = range(1, 7)
_NATIVE: Final = frozenset({str, bytes, bool, NoneType, float})
_UNCHECKED: Final = frozenset({int, bool, NoneType, float})
"""Types of which every value can be encoded."""
_KEPT: Final = (bytes, Decimal)
"""Types that msgspec leaves as they are: MessagePack itself has bytes, and `_tagged` encodes decimals."""
_encode: Final = msgspec.msgpack.Encoder().encode


def type_name(type_: Any) -> str:
    """Return the name of a type, which is stored with an object and compared after a restart."""
    return type_.__qualname__ if isinstance(type_, type) and get_origin(type_) is None else str(type_)


class Codec:
    """Codec of the values of one type. Stateless."""

    def __init__(self, type_: Any, name: str) -> None:
        """Prepare a codec.

        ``type_`` is `typing.Any` for plain Python values; ``name`` is the object's name, for messages of errors.
        """
        self.type = type_
        self._name = name
        self._is_plain = type_ is Any
        self._exact = type_ if isinstance(type_, type) and (type_ in _NATIVE or type_ is int) else None

    def encode(self, value: object) -> bytes:
        """Encode a value; raise `TypeError` for a value of another type, `ValueError` for text that is not Unicode."""
        kind = type(value)
        if kind in _NATIVE and (self._is_plain or kind is self._exact):
            return _encode(value)
        return _encode(_tagged(value if self._is_plain else self._builtins(value)))

    def check(self, value: object) -> None:
        """Raise the errors that `encode` would raise; the check is fast if the type has no invalid values."""
        kind = type(value)
        if kind not in _UNCHECKED or not (self._is_plain or kind is self._exact):
            self.encode(value)

    def decode(self, data: bytes) -> Any:
        """Decode a value; raise `CorruptStateError`, which names the object, for damage."""
        try:
            value = _decode(data)
            return value if self._is_plain else self._typed(value)
        except (msgspec.DecodeError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
            raise CorruptStateError(f"object {self._name}: expected a value, was {data[:40]!r}: {error}") from None

    def _typed(self, value: Any) -> Any:
        if self._exact is not None:
            if type(value) is not self._exact:
                raise TypeError(f"expected {type_name(self.type)}, was {type(value).__name__}")
            return value
        return msgspec.convert(value, self.type, builtin_types=_KEPT)

    def _builtins(self, value: object) -> object:
        try:
            plain = value if self._exact is not None else msgspec.to_builtins(value, builtin_types=_KEPT)
            self._typed(plain)
        except (msgspec.ValidationError, TypeError) as error:
            raise TypeError(
                f"object {self._name}: expected a value of type {type_name(self.type)}, was {value!r}: {error}"
            ) from None
        return plain


def _tagged(value: object) -> object:
    """Return a value in which extensions replace values of types that MessagePack lacks."""
    kind = type(value)
    if kind in _NATIVE:
        return value
    if isinstance(value, int) and kind is int:
        if -(2**63) <= value < 2**64:
            return value
        return msgspec.msgpack.Ext(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))
    if isinstance(value, (tuple, list, set, frozenset)) and kind in _COLLECTIONS:
        items = [_tagged(item) for item in value]
        return items if kind is list else msgspec.msgpack.Ext(_COLLECTIONS[kind], _encode(items))
    if isinstance(value, Decimal) and kind is Decimal:
        return msgspec.msgpack.Ext(_DECIMAL, str(value).encode())
    if isinstance(value, dict) and kind is dict:
        if all(type(key) is str for key in value):
            return {key: _tagged(item) for key, item in value.items()}
        pairs = [[_tagged(key), _tagged(item)] for key, item in value.items()]
        return msgspec.msgpack.Ext(_DICT, _encode(pairs))
    raise TypeError(f"expected a plain Python value, or an object made with its type, was {kind.__qualname__}")


_COLLECTIONS: Final[dict[type, int]] = {list: 0, tuple: _TUPLE, set: _SET, frozenset: _FROZENSET}


def _untagged(code: int, data: memoryview) -> object:
    if code == _INTEGER:
        return int.from_bytes(data, "little", signed=True)
    if code == _DECIMAL:
        return Decimal(bytes(data).decode())
    made = _MADE.get(code)
    if made is None:
        raise ValueError(f"expected an extension of 1 to {_FROZENSET}, was {code}")
    return made(_decode(data))


_MADE: Final[dict[int, Callable[[Any], object]]] = {_TUPLE: tuple, _SET: set, _FROZENSET: frozenset, _DICT: dict}
_decode: Final = msgspec.msgpack.Decoder(Any, ext_hook=_untagged).decode
