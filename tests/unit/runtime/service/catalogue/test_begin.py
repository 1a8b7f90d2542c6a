"""A run directory whose control record is lost, or of another version, is refused by name."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from runtime.compiler import compile_program, decode_program, encode_program
from runtime.engine.ingest import EpochWriter
from runtime.service.catalogue import begin_catalogue
from runtime.service.errors import CatalogueError, ServiceError
from tests.unit.runtime.service.catalogue.test_catalogue import R, view

PROGRAM = compile_program([view("first")], [R])


@pytest.mark.parametrize(
    ("control", "reason"),
    [
        (b"", "the control record of epoch 0 in .*, which is never removed, was none"),
        (
            encode_program(msgspec.structs.replace(PROGRAM, format_version=1)),
            "at .*: expected a view program of format",
        ),
        (encode_program(PROGRAM)[:-5], "a run directory that this version can read at .*: Input data was truncated"),
    ],
)
def test_a_catalogue_that_cannot_be_read_is_named(tmp_path: Path, control: bytes, reason: str) -> None:
    writer = EpochWriter(tmp_path, lambda: 0, lambda _: None)
    try:
        writer.seal({}, control=control)
        with pytest.raises(ServiceError, match=reason):
            begin_catalogue(writer, [], [R], mode="sql", most_views=1, where=str(tmp_path))
    finally:
        writer.close()


def test_a_catalogue_that_is_there_is_taken(tmp_path: Path) -> None:
    writer = EpochWriter(tmp_path, lambda: 0, lambda _: None)
    try:
        writer.seal({}, control=encode_program(PROGRAM))
        held = begin_catalogue(writer, [], [R], mode="sql", most_views=1, where=str(tmp_path))
        assert encode_program(held) == encode_program(decode_program(encode_program(PROGRAM)))
    finally:
        writer.close()


def test_a_view_may_not_name_a_column_as_its_changes_do(tmp_path: Path) -> None:
    """A change has the weight of its row in a column of its own."""
    writer = EpochWriter(tmp_path, lambda: 0, lambda _: None)
    select = view("first", "SELECT a, b AS Weight FROM r")
    try:
        with pytest.raises(CatalogueError, match="another name than 'weight' for a column of first"):
            begin_catalogue(writer, [select], [R], mode="sql", most_views=1, where=str(tmp_path))
        assert writer.epoch == -1
    finally:
        writer.close()
