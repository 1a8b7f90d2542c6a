"""ITCH: every message, any cuts, both framings, what is malformed, what is asked for."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from itch.parser import MessageParser

from deltabook.wire.itch import MESSAGES, Kind, encode_message, frame
from runtime.formats import (
    Condition,
    Field,
    InputFormatter,
    Limits,
    Malformed,
    Pushdown,
    RawBuffer,
    Run,
    Schema,
    SchemaError,
)
from runtime.formats.itch import ITCH_FIELDS, ItchFormat, chain, columns, itch_schema
from tests.generators.itch_buffers import expected_rows, formatted, packets, soup, split
from tests.generators.itch_day import make_day

Framing = Literal["file", "soupbin"]
WIDE = itch_schema()
HOLDS: dict[str, Any] = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


@pytest.fixture(params=["one by one", "by columns"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few messages are read one by one and many by columns; every test is one of both."""
    few = 1 << 30 if request.param == "one by one" else 0
    monkeypatch.setattr(columns, "_FEW", few)
    monkeypatch.setattr(chain, "_FEW_BYTES", few)


def batches_of(schema: Schema, data: bytes, pushdown: Pushdown | None = None, most: int = 1 << 20) -> list[Any]:
    rng = random.Random(1)
    found: list[Any] = formatted(InputFormatter(schema, pushdown or Pushdown()), split(rng, data, most), rng)
    return found


def rows_of(batches: Sequence[Any]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.rows.to_pylist()]


def framed(*messages: bytes) -> bytes:
    return b"".join(map(frame, messages))


def delete(number: int = 1) -> bytes:
    return encode_message("D", order_reference_number=number)


class TestMessages:
    @pytest.mark.parametrize("letter", MESSAGES)
    def test_every_message_is_a_row_with_null_in_other_fields(self, letter: str) -> None:
        messages = [message for message in make_day(3, 1500, others=0.5).messages if message[:1] == letter.encode()]
        assert len(messages) > 5
        rows = rows_of(batches_of(WIDE, framed(*messages)))
        assert rows == expected_rows(messages)
        assert {name for name, value in rows[0].items() if value is not None} == {
            "message_type",
            *(field.name for field in MESSAGES[letter].fields),
        }

    def test_an_independent_parser_reads_the_same(self) -> None:
        """In particular widths, offsets and prices; its names of fields are its own."""
        day = make_day(5, 2000, others=0.4)
        reference = list(MessageParser().parse_file(io.BytesIO(day.data)))
        rows = rows_of(batches_of(WIDE, day.data, most=700))
        assert len(reference) == len(rows)
        for message, row in zip(reference, rows, strict=True):
            values = [value for name, value in row.items() if value is not None and name != "message_type"]
            known = [
                value.decode().rstrip() if isinstance(value, bytes) else value
                for name, value in vars(message).items()
                if name not in {"message_type", "description", "message_format", "message_pack_format"}
            ]
            assert message.message_type.decode() == row["message_type"]
            assert set(map(str, values)) <= set(map(str, known)), (message, row)

    def test_only_blanks_at_the_end_of_a_text_are_padding(self) -> None:
        messages = [b"S" + bytes(11), b"Y" + bytes(10) + b" A\0\0B \0 \0", b"S" + bytes(10) + b" "]
        found = [
            (row["event_code"], row["stock"], row["reg_sho_action"])
            for row in rows_of(batches_of(WIDE, framed(*messages)))
        ]
        assert found == [("\0", None, None), (None, " A\0\0B \0", "\0"), ("", None, None)]

    def test_midnight_is_added_to_times(self) -> None:
        message = encode_message("S", timestamp=5, event_code="O")
        schema = Schema(
            (Field("timestamp", "timestamp(ns)", nullable=True),), format=ItchFormat(midnight_ns=86_400_000_000_000)
        )
        (batch,) = batches_of(schema, frame(message))
        assert batch.rows.column(0).cast(pa.int64()).to_pylist() == [86_400_000_000_005]

    def test_integers_may_be_as_narrow_as_the_wire(self) -> None:
        fields = (Field("stock_locate", "uint16"), Field("match_number", "uint64", nullable=True))
        message = encode_message("B", stock_locate=65535, match_number=2**64 - 1)
        (batch,) = batches_of(Schema(fields, format=ItchFormat()), frame(message))
        assert batch.rows.to_pylist() == [{"stock_locate": 65535, "match_number": 2**64 - 1}]


class TestCuts:
    @pytest.mark.parametrize("most", [1, 2, 3, 20, 300, 100_000])
    @pytest.mark.parametrize("framing", ["file", "soupbin"])
    def test_any_buffers_in_any_order_give_the_same_rows(self, framing: Framing, most: int) -> None:
        for seed in range(3):
            rng = random.Random(seed)
            messages = make_day(seed, min(250, 20 + 20 * most), others=0.3).messages
            if framing == "file":
                data, expected = framed(*messages), expected_rows(messages)
            else:
                sent = packets(rng, messages)
                rows = [(type_, payload) for type_, payload in sent if type_ in "SUH"]
                data, expected = soup(sent), expected_rows([p for _, p in rows], [t for t, _ in rows])
            raws = split(rng, data, most)
            for start in range(0, len(raws), 64):
                raws[start : start + 64] = rng.sample(raws[start : start + 64], len(raws[start : start + 64]))
            batches = formatted(InputFormatter(itch_schema(framing)), raws, rng)
            assert rows_of(batches) == expected
            assert [number for batch in batches for number in batch.tuple_numbers] == list(range(len(expected)))

    def test_rows_end_where_their_messages_do(self) -> None:
        day = make_day(7, 400)
        ends = np.cumsum([len(message) + 2 for message in day.messages]).tolist()
        assert [end for batch in batches_of(WIDE, day.data, most=90) for end in batch.row_ends] == ends

    @pytest.mark.parametrize("cut", range(1, 21))
    def test_a_message_may_be_cut_at_each_of_its_bytes(self, cut: int) -> None:
        data = framed(delete(1), delete(2), delete(3))
        raws = [RawBuffer(1, 1, data[: 21 + cut], 0), RawBuffer(1, 2, data[21 + cut :], 21 + cut)]
        rng = random.Random(0)
        for order in (raws, raws[::-1]):
            batches = formatted(InputFormatter(WIDE), order, rng, at_once=1)
            assert [row["order_reference_number"] for row in rows_of(batches)] == [1, 2, 3]

    def test_bytes_that_look_like_messages_mislead_nobody(self) -> None:
        """0x0013 and D stand in each order number; a run that starts inside a message sees them first."""
        number = int.from_bytes(b"\0\x13D\0\0\x13D\0", "big")
        message = encode_message(
            "U", order_reference_number=number, new_order_reference_number=number, shares=0x00134400, price=0x00134400
        )
        for most, count in ((10, 100), (37, 200), (5000, 3000), (1 << 20, 3000)):
            batches = batches_of(WIDE, framed(*[message] * count), most=most)
            assert sum(batch.rows.num_rows for batch in batches) == count
            assert {row["new_order_reference_number"] for row in rows_of(batches)} == {number}

    def test_a_run_is_settled_by_its_state_whatever_was_guessed(self) -> None:
        data = framed(*make_day(11, 300).messages)
        starts = [0]
        while starts[-1] < len(data):
            starts.append(starts[-1] + 2 + int.from_bytes(data[starts[-1] : starts[-1] + 2], "big"))
        indexer = ItchFormat().indexer(WIDE, Pushdown())
        for at in range(1, 500):
            index = indexer.index(Run([data[at:3000]], at))
            begin = next(start for start in starts if start >= at)
            state = begin - at if begin - at or at in starts else 0
            if begin - at == next(s for s in starts if s > at - 1) - at and at - 1 in starts:
                state = -1 - data[at - 1]  # only the first byte of the prefix stood before
            cut = index.cut(state)
            last = max(start for start in starts if start <= 3000)
            assert (cut.first, cut.last) == (begin - at, last - at)
            assert cut.end_state == (next(s for s in starts if s > 3000) - 3000 if last < 2999 else -1 - data[2999])

    def test_a_message_that_is_cut_off_at_the_end_is_told(self) -> None:
        batches = batches_of(WIDE, framed(delete(1), delete(2))[:-1])
        assert [row["order_reference_number"] for row in rows_of(batches)] == [1]
        assert sum(batch.bad for batch in batches) == 1


class TestMalformed:
    BAD = (b"", b"Z", b"A" * 35, b"D" * 20, bytes(300), b"\xff" * 19, b"d" + delete()[1:])

    @pytest.mark.parametrize("most", [1, 5, 60, 1 << 20])
    def test_unwanted_messages_are_skipped_by_their_length(self, most: int) -> None:
        rng = random.Random(most)
        messages = list(make_day(2, 200).messages)
        for bad in self.BAD * 3:
            messages.insert(rng.randrange(len(messages)), bad)
        batches = batches_of(WIDE, framed(*messages), most=most)
        assert rows_of(batches) == expected_rows(messages)
        assert sum(batch.bad for batch in batches) == len(self.BAD) * 3
        wrong = [i for i, message in enumerate(messages) if message in self.BAD]
        assert [letter.row for batch in batches for letter in batch.dead] == wrong

    @pytest.mark.parametrize(
        ("message", "expected", "reason"),
        [
            (b"", "a type of ITCH 5.0", "type '', 0 bytes"),
            (b"Z" * 9, "a type of ITCH 5.0", "type 'Z', 9 bytes"),
            (b"D" * 20, "19 bytes for a message D", "type 'D', 20 bytes"),
        ],
    )
    def test_letters_say_what_was_expected_and_what_was_there(self, message: bytes, expected: str, reason: str) -> None:
        (letter,) = [letter for batch in batches_of(WIDE, framed(delete(), message)) for letter in batch.dead]
        assert (letter.byte_offset, letter.row, letter.field) == (21, 1, "message_type")
        assert (letter.expected, letter.reason, letter.data) == (expected, reason, frame(message))

    def test_packets_that_are_none(self) -> None:
        sent = [("S", delete()), ("X", b""), ("S", b""), ("H", b"?"), ("J", b"AS"), ("S", delete(2)), ("U", b"?")]
        batches = batches_of(itch_schema("soupbin"), soup(sent) + b"\0\0" + soup([("S", delete(3))]))
        assert [row["order_reference_number"] for row in rows_of(batches)] == [1, 2, 3]
        assert [(letter.expected, letter.reason) for batch in batches for letter in batch.dead] == [
            ("a packet of type S, U, H, Z, A, J or +", "type 'X', length 1"),
            ("a type of ITCH 5.0", "type '', 0 bytes"),
            ("a packet H of length 1", "type 'H', length 2"),
            ("a packet J of length 2", "type 'J', length 3"),
            ("a type of ITCH 5.0", "type '?', 1 bytes"),
            ("a packet of type S, U, H, Z, A, J or +", "type '', length 0"),
        ]

    @pytest.mark.parametrize("most", [7, 1 << 20])
    def test_a_message_beyond_the_limit_is_bad(self, most: int) -> None:
        schema = Schema(ITCH_FIELDS, format=ItchFormat(), limits=Limits(tuple_bytes=40))
        imbalance = make_day(4, 500, others=0.5).messages
        batches = batches_of(schema, framed(*imbalance), most=most)
        assert rows_of(batches) == expected_rows([message for message in imbalance if len(message) <= 38])
        assert sum(batch.bad for batch in batches) == sum(len(message) > 38 for message in imbalance)

    @pytest.mark.parametrize("policy", [Malformed.NULL, Malformed.SKIP])
    def test_absent_values_become_null_or_make_a_message_bad(self, policy: Malformed) -> None:
        values = {"order_reference_number": 1, "executed_shares": 2, "match_number": 2**63}
        bad = [b"S" + bytes(10) + b"\xc3", encode_message("E", **values)]
        schema = Schema(ITCH_FIELDS, format=ItchFormat(), malformed_nullable=policy)
        batches = batches_of(schema, framed(delete(), bad[0], delete(2), bad[1]))
        rows = rows_of(batches)
        if policy == Malformed.NULL:
            assert [(row["event_code"], row["match_number"]) for row in rows] == [(None, None)] * 4
            assert sum(batch.nulled for batch in batches) == 2
        else:
            assert [row["order_reference_number"] for row in rows] == [1, 2]
            letters = [letter for batch in batches for letter in batch.dead]
            assert [(letter.row, letter.field) for letter in letters] == [(1, "event_code"), (3, "match_number")]

    def test_noise_is_all_bad_and_ends_soon(self) -> None:
        noise = random.Random(1).randbytes(1 << 19)
        batches = batches_of(WIDE, noise, most=1 << 17)
        assert sum(batch.bad for batch in batches) > 0
        assert batches_of(WIDE, bytes(1 << 16))[0].bad == 1 << 15


class TestPushdown:
    def test_only_wanted_fields_are_made_and_looked_at(self) -> None:
        bad = b"S" + bytes(10) + b"\xc3"
        batches = batches_of(WIDE, framed(delete(7), bad), Pushdown(("order_reference_number", "timestamp")))
        assert rows_of(batches) == [
            {"timestamp": 0, "order_reference_number": 7},
            {"timestamp": 0, "order_reference_number": None},
        ]
        assert sum(batch.nulled + batch.bad for batch in batches) == 0

    @pytest.mark.parametrize(
        "conditions",
        [
            (Condition("message_type", "=", "E"),),
            (Condition("message_type", "<>", "A"), Condition("order_reference_number", ">", 20)),
            (Condition("message_type", ">=", "P"), Condition("timestamp", "<", 34_200_000_400_000)),
            (Condition("shares", "<=", 100),),
        ],
    )
    def test_conditions_choose_rows_and_the_others_are_counted(self, conditions: tuple[Condition, ...]) -> None:
        messages = make_day(9, 500).messages
        rows = expected_rows(messages)
        kept = [
            (i, row)
            for i, row in enumerate(rows)
            if all(row[c.column] is not None and HOLDS[c.comparison](row[c.column], c.value) for c in conditions)
        ]
        batches = batches_of(WIDE, framed(*messages), Pushdown(("message_type", "stock"), conditions), most=900)
        assert rows_of(batches) == [{name: row[name] for name in ("message_type", "stock")} for _, row in kept]
        assert [number for batch in batches for number in batch.tuple_numbers] == [i for i, _ in kept]
        assert 0 < len(kept) < len(rows)
        assert sum(batch.filtered for batch in batches) == len(rows) - len(kept)

    def test_without_columns_messages_are_counted(self) -> None:
        batches = batches_of(WIDE, make_day(1, 90).data, Pushdown(()))
        assert sum(batch.rows.num_rows for batch in batches) == 90


class TestSchema:
    @pytest.mark.parametrize(
        ("field", "text"),
        [
            (Field("colour", "string"), "expected a field of an ITCH message, was 'colour'"),
            (Field("stock", "int64", nullable=True), "expected string for stock"),
            (Field("shares", "string", nullable=True), "expected an integer that holds the field"),
            (Field("shares", "int32", nullable=True), "expected an integer that holds the field"),
            (Field("price", "float64", nullable=True), "expected an integer that holds the field"),
            (Field("price", "timestamp(ns)", nullable=True), "expected an integer that holds the field"),
            (Field("stock", "string"), "expected stock to be nullable"),
        ],
    )
    def test_fields_that_do_not_fit_are_refused(self, field: Field, text: str) -> None:
        with pytest.raises(SchemaError, match=text):
            InputFormatter(Schema((field,), format=ItchFormat()))

    def test_options_that_make_no_sense_are_refused(self) -> None:
        framing: Any = "udp"
        with pytest.raises(SchemaError, match="expected framing file or soupbin, was 'udp'"):
            ItchFormat(framing)
        with pytest.raises(SchemaError, match="expected midnight_ns"):
            ItchFormat(midnight_ns=-1)

    def test_the_wide_relation_has_every_field_once(self) -> None:
        names = [field.name for field in ITCH_FIELDS]
        assert len(set(names)) == len(names)
        assert set(names) == {"message_type", "packet_type"} | {
            field.name for message in MESSAGES.values() for field in message.fields
        }
        assert {field.type for field in ITCH_FIELDS} == {"string", "int64"}
        assert Kind.ALPHA in Kind
