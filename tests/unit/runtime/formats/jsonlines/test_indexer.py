"""JSON lines: what is a tuple, how keys lead to values, and what a bad line costs its neighbours: nothing.

Numbers of rows are those of docs/features/formats.md.
"""

from __future__ import annotations

import json

import pytest

from runtime.formats.errors import SchemaError
from runtime.formats.format import Block, Run, Section
from runtime.formats.pushdown import Condition, Pushdown
from runtime.formats.schema import Field, Limits, Malformed
from tests.generators.json_lines import POINT, indexer, parse

# Row 18: keys, paths, arrays, texts.


def test_keys_come_in_any_order_and_unknown_ones_are_ignored() -> None:
    parsed = parse(indexer(*POINT), '{"y":"a","x":1}', '{"z":{"x":[1,{}]},"x":2,"w":null,"y":"b"}')
    assert parsed.rows.to_pylist() == [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}]


def test_a_missing_key_or_null_is_null_or_an_error() -> None:
    parsed = parse(indexer(*POINT), '{"x":1}', '{"x":1,"y":null}', '{"y":"a"}', '{"x":null}', "{}")
    assert parsed.rows.to_pylist() == [{"x": 1, "y": None}] * 2
    assert [(bad.index, bad.field, bad.expected) for bad in parsed.bad] == [(i, "x", "int64") for i in (2, 3, 4)]
    assert len(parsed.nulled) == 0


def test_nested_objects_are_reached_by_path() -> None:
    fields = (
        Field("price", "float64", nullable=True, path="order.price"),
        Field("user", "string", nullable=True, path="order.by.name"),
        Field("dotted", "int64", nullable=True, path=r"a\.b"),
    )
    lines = (
        '{"order":{"by":{"name":"n","id":1},"price":1.5},"a.b":7}',
        '{"order":{"by":null}}',
        '{"order":null}',
        "{}",
        '{"a":{"b":1}}',
    )
    rows = parse(indexer(*fields), *lines).rows.to_pylist()
    assert [tuple(row.values()) for row in rows] == [(1.5, "n", 7)] + [(None, None, None)] * 4


def test_a_value_in_place_of_an_object_spoils_its_fields() -> None:
    nullable = indexer(Field("a", "int8", True, "o.a"), Field("b", "int8", True, "o.p.b"), Field("c", "int8"))
    parsed = parse(nullable, '{"c":1,"o":5}', '{"c":2,"o":{"a":3,"p":[]}}')
    assert [tuple(row.values()) for row in parsed.rows.to_pylist()] == [(None, None, 1), (3, None, 2)]
    assert parsed.nulled.tolist() == [0, 0, 1]
    parsed = parse(indexer(Field("a", "int8", path="o.a")), '{"o":5}')
    assert [bad.field for bad in parsed.bad] == ["a"]


@pytest.mark.parametrize(
    "text", ["", "a", "ä€😀", 'quote " slash / back \\', "line\nfeed\r\ttab", "nul \0 and \x7f", "{[,:]}", "\u2028"]
)
def test_texts_survive_in_utf8_and_as_escapes(text: str) -> None:
    for is_ascii in (True, False):
        line = json.dumps({"x": 1, "y": text}, ensure_ascii=is_ascii)
        assert parse(indexer(*POINT), line).rows.to_pylist() == [{"x": 1, "y": text}]


@pytest.mark.parametrize("text", [r'"\ud83d"', r'"\ude00\ud83d"', r'"\x"', r'"\u12"', '"\t"', '"\x01"', "'a'"])
def test_texts_with_bad_escapes_or_controls_are_malformed(text: str) -> None:
    assert len(parse(indexer(Field("a", "string")), f'{{"a":{text}}}').bad) == 1


def test_a_key_may_be_written_with_escapes() -> None:
    assert parse(indexer(*POINT), r'{"\u0078":1,"y":"b"}').rows.to_pylist() == [{"x": 1, "y": "b"}]


# Tuples.


def test_blank_lines_are_no_tuples_and_space_is_ignored() -> None:
    lines = ("", '{"x":1}', "  ", "\t", "\r", '  {"x" : 2 }\t\r', " " * 40, " " * 40 + '{"x":3}' + " " * 40, "")
    parsed = parse(indexer(*POINT), *lines)
    assert [row["x"] for row in parsed.rows.to_pylist()] == [1, 2, 3]
    assert parsed.tuples == 3
    assert parse(indexer(*POINT), "", " ").rows.num_rows == 0
    assert parse(indexer(*POINT)).tuples == 0


def test_byte_order_marks_before_lines_do_no_harm() -> None:
    lines = ('\ufeff{"x":1}', '{"x":2,"y":"\ufeff"}', '\ufeff{"x":3}', "\ufeff", '\ufeff {"x":"4"}')
    parsed = parse(indexer(*POINT), *lines)
    assert [tuple(row.values()) for row in parsed.rows.to_pylist()] == [(1, None), (2, "\ufeff"), (3, None)]
    assert [(bad.index, bad.field) for bad in parsed.bad] == [(3, "x")]


def test_the_reason_names_the_key_that_stands_there_twice() -> None:
    fields = (Field("x", "int64"), Field("z", "int64", True, path="a.z"))
    (bad,) = parse(indexer(*fields), '{"x":1,"x":2}').bad
    assert (bad.field, bad.expected, bad.reason) == ("x", "int64", "the key x occurs twice")
    (bad,) = parse(indexer(*fields, malformed_nullable=Malformed.SKIP), '{"x":1,"a":{"z":1,"z":2}}').bad
    assert (bad.field, bad.reason) == ("z", "the key z occurs twice")


def test_line_ends_may_be_of_windows() -> None:
    parsed = parse(indexer(*POINT), '{"x":1}', "", '{"x":2}', "x", end=b"\r\n")
    assert parsed.rows.column("x").to_pylist() == [1, 2]
    assert [(bad.start, bad.stop) for bad in parsed.bad] == [(20, 21)]


BAD_LINES = [
    b"null",
    b"[]",
    b"1",
    b'"{}"',
    b"true",
    b'{"x":1}{"x":2}',
    b'{"x":1} {"x":2}',
    b'{"x":1}null',
    b'{"x":1}null{"x":2}',
    b'{"x":1},',
    b'{"x":1}]',
    b'{"x":1}}',
    b'{"x":1,}',
    b'{"x":1',
    b"{",
    b"}",
    b'{"x"}',
    b'{"x":}',
    b"{x:1}",
    b'{"x":1 "y":2}',
    b'{"x":1} // comment',
    b'{"x":1\0}',
    b'\0{"x":1}',
    b'{"x":1}\0',
    b'{"x":1,"y":"\xff"}',
    b'{"x":1,"z":"\xc0\x80"}',
    b'{"x":1,"z":"\xed\xa0\x80"}',
    b'{"x":1,"\xff":0}',
    b'\xef\xbb{"x":1}',
    b'\xef\xbb\xbf\xef\xbb\xbf{"x":1}',
    b'{"x":1}\xef\xbb\xbf',
    b'{"x":1,"x":1}',
    b'{"x":1}\x0c',
    b"\x0b",
    b"[" * 60_000,
    b'{"z":' + b"[" * 60_000,
    b'{"x":1,"z":' + b"[" * 32 + b"]" * 32 + b"}",
    b'{"x":1,"z":"]]]","w":' + b"[" * 32 + b"]" * 32 + b"}",
    b'{"x":1,"z":"' + b"a" * 65_536 + b'"}',
]


@pytest.mark.parametrize("line", BAD_LINES, ids=lambda line: repr(line[:24]))
def test_a_bad_line_is_reported_and_costs_no_neighbour_its_row(line: bytes) -> None:
    for before in (0, 1, 700):
        parsed = parse(indexer(*POINT), *['{"x":1}'] * before, line, *['{"x":2,"y":"b"}'] * 600)
        assert parsed.bad_tuples.tolist() == [before]
        assert parsed.rows.column("x").to_pylist() == [1] * before + [2] * 600
        assert parsed.bad[0].stop - parsed.bad[0].start == len(line)


def test_nesting_in_the_limit_and_brackets_in_texts_are_fine() -> None:
    deep = '{"x":1,"z":' + "[" * 31 + "]" * 31 + "}"
    text = json.dumps({"x": 1, "z": "[" * 40 + '\\"' * 3 + "{" * 40})
    wide = json.dumps({"x": 1, "z": [[1]] * 100})
    assert parse(indexer(*POINT), deep, text, wide, deep).rows.num_rows == 4
    assert parse(
        indexer(*POINT, limits=Limits(nesting=2)), '{"x":1,"z":[]}', '{"x":1,"z":[[]]}', text
    ).bad_tuples.tolist() == [1]


def test_an_object_over_two_lines_is_two_bad_tuples() -> None:
    parsed = parse(indexer(*POINT), '{"x":', "1}", '{"x":1}{"x":1}', '{"x":', '{"x":1}}')
    assert parsed.bad_tuples.tolist() == [0, 1, 2, 3, 4]
    parsed = parse(indexer(*POINT), '{"x":1,"z":', "{}}", '{"x":1}{"x":1}', '{"x":2}')  # as many objects as lines
    assert parsed.bad_tuples.tolist() == [0, 1, 2]


def test_a_million_keys_are_bounded_by_the_length_of_the_tuple() -> None:
    many = ",".join(f'"k{i}":0' for i in range(5_000))
    assert parse(indexer(*POINT), "{" + many + ',"x":1}').rows.num_rows == 1
    assert parse(indexer(*POINT), "{" + many * 20 + ',"x":1}', '{"x":1}').bad_tuples.tolist() == [0]


def test_blank_space_beyond_the_limit_is_a_too_long_tuple() -> None:
    """For nobody may have kept enough of it to know that nothing else was in it."""
    parsed = parse(indexer(*POINT, limits=Limits(tuple_bytes=20)), " " * 19, " " * 20, '{"x":1}')
    assert (parsed.tuples, parsed.bad_tuples.tolist()) == (2, [0])


def test_more_lines_than_the_reader_takes_at_once() -> None:
    parsed = parse(indexer(Field("x", "int8", nullable=True)), *["{}"] * 150_000, '{"x":1}')
    assert parsed.rows.num_rows == 150_001
    assert parsed.rows.column(0).null_count == 150_000


# Rows 23, 24: malformed values.


def test_a_malformed_nullable_value_becomes_null_and_counts() -> None:
    fields = (Field("n", "int64"), Field("a", "int8", True), Field("c", "char", True), Field("f", "float64", True))
    lines = [f'{{"n":{i},"a":{i % 100},"c":"x","f":0.5}}' for i in range(2_000)]
    lines[5] = '{"n":5,"a":"5","c":"x","f":0.5}'
    lines[900] = '{"n":900,"a":128,"c":"xy","f":NaN}'
    lines[1500] = '{"n":"1500","a":1}'
    lines[1999] = '{"n":1999,"a":1.5,"c":7,"f":[]}'
    parsed = parse(indexer(*fields), *lines)
    rows = parsed.rows.to_pylist()
    assert [row["n"] for row in rows] == [i for i in range(2_000) if i != 1500]
    assert rows[5] == {"n": 5, "a": None, "c": "x", "f": 0.5}
    assert rows[900] == {"n": 900, "a": None, "c": None, "f": None}
    assert rows[1998] == {"n": 1999, "a": None, "c": None, "f": None}
    assert parsed.nulled.tolist() == [5, 900, 900, 900, 1999, 1999, 1999]
    assert [(bad.index, bad.field, bad.expected, bad.reason) for bad in parsed.bad] == [
        (1500, "n", "int64", 'a string: "1500"')
    ]


@pytest.mark.parametrize("policy", [Malformed.FAIL, Malformed.SKIP, Malformed.DEAD_LETTER])
def test_otherwise_the_tuple_is_bad(policy: Malformed) -> None:
    reader = indexer(Field("a", "int8", True), Field("c", "char", True), malformed_nullable=policy)
    parsed = parse(reader, '{"a":"1"}', '{"a":1}', '{"c":"xy"}', '{"a":null}')
    assert parsed.bad_tuples.tolist() == [0, 2]
    assert [bad.field for bad in parsed.bad] == ["a", "c"]
    assert len(parsed.nulled) == 0


def test_only_some_bad_tuples_are_described_but_all_are_counted() -> None:
    parsed = parse(indexer(*POINT, limits=Limits(described=3)), *['{"x":1}', '{"x":"1"}'] * 500)
    assert parsed.bad_tuples.tolist() == list(range(1, 1000, 2))
    assert [bad.index for bad in parsed.bad] == [1, 3, 5]


def test_values_refused_by_the_reader_are_found_by_field() -> None:
    fields = (Field("n", "int64"), Field("a", "int8", True), Field("t", "timestamp(ns)", True))
    lines = [f'{{"n":{i}}}' for i in range(600)]
    lines[100] = '{"n":100,"a":1,"a":2}'
    lines[200] = '{"n":200,"t":"1600-01-01"}'
    lines[300] = '{"n":300,"n":300}'
    parsed = parse(indexer(*fields), *lines)
    assert parsed.nulled.tolist() == [100, 200]
    assert [(bad.index, bad.field) for bad in parsed.bad] == [(300, "n")]


# Row 27: what later operators need.


def test_only_wanted_columns_are_read_and_looked_at() -> None:
    lines = ('{"x":1,"y":"a"}', '{"x":2,"y":5}', '{"x":"3","y":"b"}')
    parsed = parse(indexer(*POINT, pushdown=Pushdown(("x",))), *lines)
    assert parsed.rows.to_pylist() == [{"x": 1}, {"x": 2}]
    assert parsed.bad_tuples.tolist() == [2]
    counted = parse(indexer(*POINT, pushdown=Pushdown(())), *lines, "x")
    assert (counted.rows.num_columns, counted.rows.num_rows, counted.tuples) == (0, 3, 4)


def test_rows_that_no_condition_wants_are_left_out_early() -> None:
    reader = indexer(*POINT, pushdown=Pushdown(("y",), (Condition("x", ">", 1), Condition("y", "<>", "c"))))
    text = b'{"x":1,"y":"a"}\n{"x":2,"y":"b"}\nbad\n\n{"x":3}\n{"x":4,"y":"c"}\n{"x":5,"y":"d"}\n'
    parsed = reader.parse(Block([text], [Section(0, len(text))]))
    assert parsed.rows.to_pylist() == [{"y": "b"}, {"y": "d"}]
    assert parsed.kept.tolist() == [1, 5]
    assert (parsed.tuples, parsed.bad_tuples.tolist()) == (6, [2])
    assert reader.empty_rows().schema == parsed.rows.schema


def test_paths_that_collide_are_refused() -> None:
    for paths in (("a", "a"), ("a", "a.b"), ("a.b", "a")):
        with pytest.raises(SchemaError):
            indexer(Field("p", "int8", path=paths[0]), Field("q", "int8", path=paths[1]))


# Phase 1.


@pytest.mark.parametrize(
    ("pieces", "cut"),
    [
        ([b"abc"], (-1, -1)),
        ([], (-1, -1)),
        ([b"\n"], (1, 1)),
        ([b"ab\ncd\ne"], (3, 6)),
        ([b"ab", b"", b"c\nd", b"e"], (4, 4)),
        ([b"a\n", b"bc", memoryview(b"d\ne")], (2, 6)),
    ],
)
def test_the_cut_is_behind_the_first_and_the_last_line_end(pieces: list[bytes], cut: tuple[int, int]) -> None:
    found = indexer(*POINT).index(Run(pieces, 0)).settled
    assert found is not None
    assert (found.first, found.last) == cut


def test_a_last_tuple_gets_its_line_end() -> None:
    assert indexer(*POINT).terminated(b'{"x":1}', 0) == b'{"x":1}\n'
