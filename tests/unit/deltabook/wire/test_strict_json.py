"""JSON of others: one meaning for every reader, or an error."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltabook.wire.strict_json import decode_strictly

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
)


@given(VALUES)
def test_every_other_text_is_read_as_before(value: Any) -> None:
    data = msgspec.json.encode(value)
    assert decode_strictly(data, Any) == msgspec.json.decode(data)


@given(st.dictionaries(st.text(max_size=3), VALUES, min_size=1, max_size=4), st.data())
def test_a_name_that_an_object_has_twice_is_named(value: dict[str, Any], data: st.DataObject) -> None:
    pairs = [(name, msgspec.json.encode(item).decode()) for name, item in value.items()]
    repeated = data.draw(st.sampled_from(pairs))
    pairs.insert(data.draw(st.integers(0, len(pairs))), repeated)
    escaped = "".join(f"\\u{unit:04x}" for unit in memoryview(repeated[0].encode("utf-16-le")).cast("H"))
    members = [f"{msgspec.json.encode(name).decode()}:{item}" for name, item in pairs]
    members[members.index(f"{msgspec.json.encode(repeated[0]).decode()}:{repeated[1]}")] = f'"{escaped}":0'
    depth = data.draw(st.integers(0, 3))
    text = '{"x":[' * depth + "{" + ",".join(members) + "}" + "]}" * depth
    with pytest.raises(msgspec.ValidationError) as caught:
        decode_strictly(text.encode(), Any)
    assert str(caught.value) == f"Object contains field `{repeated[0]}` twice"


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"\xef\xbb\xbf{}", b'{"a":"\xff"}', b'{"a":"\xed\xa0\x80"}', b"[" * 100_000, b'{"a":' * 100_000,
     "\ud800", '{"a":"\ud800"}', b'{"a":1}{"a":1}', b"NaN", b'{"a":01}'],
)  # fmt: skip
def test_what_is_no_json_is_one_kind_of_error(data: bytes | str) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_strictly(data, Any)


@pytest.mark.parametrize(
    "data", [b'{"a":' + b"9" * 5000 + b"}", b'{"a":1e999999}', b'{"a":"\x7f","b":"\\ud83d\\ude00"}']
)
def test_numbers_and_text_may_be_any(data: bytes) -> None:
    """What msgspec accepts stays accepted: Python would refuse to convert an integer of 5,000 digits."""
    assert set(decode_strictly(data, dict[str, msgspec.Raw])) <= {"a", "b"}
