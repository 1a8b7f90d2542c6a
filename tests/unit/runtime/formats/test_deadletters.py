"""The dead-letter file keeps what there is room for and counts the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runtime.formats import DeadLetter, DeadLetterFile

LETTER = DeadLetter(1, 2, 30, 4, "price", "int64", "b'x' is not a value of int64", b"1,x,\xff")


def test_letters_are_json_lines(tmp_path: Path) -> None:
    """Row 23: each letter is one JSON object with its place, its field and its bytes."""
    file = DeadLetterFile(tmp_path / "dead.jsonl", max_bytes=10_000)
    file.append([LETTER, LETTER])
    file.close()
    lines = (tmp_path / "dead.jsonl").read_text().splitlines()
    assert [json.loads(line)["data"] for line in lines] == ["1,x,\\xff"] * 2
    assert json.loads(lines[0]) | {"sequence_number": 2, "byte_offset": 30, "row": 4} == json.loads(lines[0])
    assert (file.written, file.dropped) == (2, 0)


def test_file_is_bounded_over_restarts(tmp_path: Path) -> None:
    """Row 23: the file never exceeds its bound, also when it is opened again; letters without room are counted."""
    path = tmp_path / "dead.jsonl"
    for _ in range(3):
        file = DeadLetterFile(path, max_bytes=500)
        file.append([LETTER] * 10)
        assert file.written + file.dropped == 10
        file.close()
    assert 0 < path.stat().st_size <= 500
    assert file.written == 0
    file.append([LETTER])
    assert file.dropped == 11
    with pytest.raises(ValueError, match="at least 1 byte"):
        DeadLetterFile(path, max_bytes=0)
