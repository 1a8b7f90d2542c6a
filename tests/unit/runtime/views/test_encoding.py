"""Tables and words are the same after a way as bytes, small ones uncompressed, and damage is found."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from runtime.state import CorruptStateError
from runtime.views.shardruns import decode_table, decode_words, encode_table, encode_words


@pytest.mark.parametrize("rows", [0, 1, 50_000])
def test_a_table_is_the_same_afterwards(rows: int) -> None:
    table = pa.table({"a": np.arange(rows) % 1000, "s": pa.array([None if n % 3 else "x" for n in range(rows)])})
    data = encode_table(table)
    assert decode_table(data).equals(table)
    assert encode_table(table) == data
    assert rows < 2 or len(data) < table.nbytes / 2


@pytest.mark.parametrize("rows", [0, 1, 50_000])
def test_words_are_the_same_afterwards(rows: int) -> None:
    words = (np.arange(2 * rows) % 1000).reshape(2, -1).T
    data = encode_words(words)
    assert decode_words(data, words.size).reshape(words.shape).tolist() == words.tolist()
    assert rows < 2 or len(data) < words.nbytes / 2


def test_words_that_do_not_get_smaller_stay_as_they_are() -> None:
    words = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 10_000)
    assert encode_words(words) == words.tobytes()
    assert decode_words(words.tobytes(), len(words)).tolist() == words.tolist()


@pytest.mark.parametrize("data", [b"", b"nonsense", bytes(900)])
def test_damage_is_found(data: bytes) -> None:
    with pytest.raises(CorruptStateError, match="expected a table"):
        decode_table(data)
    with pytest.raises(CorruptStateError, match="expected 50000 words"):
        decode_words(data, 50_000)
