"""JSON that other programs and people write: an object that has a name twice is refused.

RFC 8259 leaves open which of two equal names counts, and most parsers take the last one. Such an object is an error
here: another parser may read a request differently, and in a file a line was probably copied and not changed.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

__all__ = ["decode_strictly"]

_SHOWN: Final = 80
"""Greatest number of characters of a name in a message."""


def decode_strictly(data: bytes | str, kind: Any) -> Any:
    """Return the record of a JSON text; ``kind`` is its type.

    Raises `msgspec.DecodeError` for anything else, also for text that is not UTF-8 or is nested too deeply, and
    `msgspec.ValidationError` for an object that has a name twice.

    >>> decode_strictly(b'{"a": 1, "b": 2}', dict[str, int])
    {'a': 1, 'b': 2}
    >>> decode_strictly(b'{"a": 1, "a": 2}', dict[str, int])
    Traceback (most recent call last):
    ...
    msgspec.ValidationError: Object contains field `a` twice
    """
    try:
        record = msgspec.json.decode(data, type=kind)
        text = data if isinstance(data, str) else data.decode()
        # Numbers remain text, because Python refuses to convert an integer of thousands of digits.
        json.loads(text, strict=False, object_pairs_hook=_refuse_repeated, parse_int=str, parse_float=str)
    except UnicodeError as error:
        raise msgspec.DecodeError(f"JSON is not UTF-8: {error}") from None
    except RecursionError:
        raise msgspec.DecodeError("JSON is nested too deeply") from None
    return record


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            raise msgspec.ValidationError(f"Object contains field `{name[:_SHOWN]}` twice")
        names.add(name)
