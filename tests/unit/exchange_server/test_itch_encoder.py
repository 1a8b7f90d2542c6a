"""What the market says, as ITCH."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import itch.parser
import msgspec
import pytest

from deltabook.wire.itch import LARGEST_BROKER, decode_message, frame
from deltabook.wire.symbols import Instrument
from exchange_server.matching.inputs import MarketRules
from exchange_server.matching.order import Order, Side
from exchange_server.matching.outputs import Imbalance, Now
from exchange_server.nasdaq.itch import ItchEncoder
from tests.generators.itch_book import messages_of

RULES = MarketRules(
    (Instrument("ACME"), Instrument("BTCUSD", "0.01", "0.00000001"), Instrument("GLOBEX", "0.0025", "100"))
)
ACME, BITCOIN, GLOBEX = 1, 2, 3
MIDNIGHT = 1_700_006_400 * 10**9
OPEN = 34_200_000_000_001


def order(
    number: int = 1, locate: int = ACME, side: Side = "B", price: int = 10_000, volume: int = 5, **more: Any
) -> Order:
    return Order(number, number, locate, side, price, volume, more.pop("broker", 7), **more)


class Said:
    """An encoder, and what it has said."""

    def __init__(self, time_ns: int = MIDNIGHT + OPEN) -> None:
        self.now = Now()
        self.now.time_ns = time_ns
        self.encoder = ItchEncoder(RULES, self.now)

    def take(self) -> list[bytes]:
        data, count = self.encoder.take()
        messages = list(messages_of(data))
        assert len(messages) == count
        return messages

    def letters(self) -> str:
        return "".join(message[:1].decode() for message in self.take())

    def fields(self) -> dict[str, Any]:
        (message,) = self.take()
        return {name: value for name, value in decode_message(message).fields.items() if name != "tracking_number"}


GONE = order(1, volume=0)
KINDS: dict[str, tuple[Callable[[ItchEncoder], None], dict[str, Any]]] = {
    "F": (
        lambda it: it.added(order(3, GLOBEX, "S")),
        {
            "order_reference_number": 3,
            "buy_sell_indicator": "S",
            "shares": 500,
            "stock": "GLOBEX",
            "price": 250_000,
            "attribution": "7",
        },
    ),
    "A": (
        lambda it: it.added(order(4, broker=LARGEST_BROKER + 1)),
        {"order_reference_number": 4, "buy_sell_indicator": "B", "shares": 5, "stock": "ACME", "price": 1_000_000},
    ),
    "E": (
        lambda it: it.executed(order(3, GLOBEX), 2, 10_000, 9),
        {"order_reference_number": 3, "executed_shares": 200, "match_number": 9},
    ),
    "C": (
        lambda it: it.executed(order(), 2, 9_999, 9),
        {
            "order_reference_number": 1,
            "executed_shares": 2,
            "match_number": 9,
            "printable": "Y",
            "execution_price": 999_900,
        },
    ),
    "C crossed": (
        lambda it: it.crossed(order(), 2, 10_000, 9),
        {
            "order_reference_number": 1,
            "executed_shares": 2,
            "match_number": 9,
            "printable": "N",
            "execution_price": 1_000_000,
        },
    ),
    "C beyond": (
        lambda it: it.executed(order(), 2, 2**31, 9),
        {
            "order_reference_number": 1,
            "executed_shares": 2,
            "match_number": 9,
            "printable": "N",
            "execution_price": 2**32 - 1,
        },
    ),
    "X": (lambda it: it.reduced(order(3, GLOBEX), 2), {"order_reference_number": 3, "canceled_shares": 200}),
    "D": (lambda it: it.deleted(order(), 5), {"order_reference_number": 1}),
    "U": (
        lambda it: it.replaced(order(3, GLOBEX), order(8, GLOBEX, price=4, volume=6)),
        {"order_reference_number": 3, "new_order_reference_number": 8, "shares": 600, "price": 100},
    ),
    "P": (
        lambda it: it.traded(order(3, GLOBEX, "S"), 2, 10_000, 9),
        {
            "order_reference_number": 0,
            "buy_sell_indicator": "S",
            "shares": 200,
            "stock": "GLOBEX",
            "price": 250_000,
            "match_number": 9,
        },
    ),
    "P printed": (
        lambda it: it.printed(ACME, 4, 2, 10_000, 9),
        {
            "order_reference_number": 0,
            "buy_sell_indicator": "B",
            "shares": 2,
            "stock": "ACME",
            "price": 1_000_000,
            "match_number": 9,
        },
    ),
    "Q": (
        lambda it: it.cross(GLOBEX, 2**40, 10_000, 9, "O"),
        {"cross_shares": 100 << 40, "stock": "GLOBEX", "cross_price": 250_000, "match_number": 9, "cross_type": "O"},
    ),
    "I": (
        lambda it: it.imbalance(Imbalance(ACME, 7, 3, "B", 10_400, 10_300, 10_000, "O")),
        {
            "paired_shares": 7,
            "imbalance_shares": 3,
            "imbalance_direction": "B",
            "stock": "ACME",
            "far_price": 1_040_000,
            "near_price": 1_030_000,
            "current_reference_price": 1_000_000,
            "cross_type": "O",
            "price_variation_indicator": "3",
        },
    ),
    "B": (lambda it: it.busted(GLOBEX, 9), {"match_number": 9}),
    "S": (lambda it: it.system("O"), {"event_code": "O"}),
    "H": (
        lambda it: it.trading(ACME, "H", "T1"),
        {"stock": "ACME", "trading_state": "H", "reserved": "", "reason_code": "T1"},
    ),
    "R": (
        lambda it: it.listed(GLOBEX),
        {
            "stock": "GLOBEX",
            "market_category": "Q",
            "financial_status_indicator": "N",
            "round_lot_size": 100,
            "round_lots_only": "Y",
            "issue_classification": "C",
            "issue_sub_type": "Z",
            "authenticity": "P",
            "short_sale_threshold_indicator": "N",
            "ipo_flag": "N",
            "luld_reference_price_tier": "",
            "etp_flag": "N",
            "etp_leverage_factor": 0,
            "inverse_indicator": "N",
        },
    ),
}
"""What is said, and the fields that are its own."""


def say(kind: str) -> Said:
    said = Said()
    KINDS[kind][0](said.encoder)
    return said


@pytest.mark.parametrize("kind", KINDS)
def test_each_message_says_what_the_market_says(kind: str) -> None:
    said = say(kind)
    fields = said.fields()
    assert fields.pop("timestamp") == OPEN
    assert fields.pop("stock_locate") == (
        0 if kind == "S" else GLOBEX if kind in {"F", "E", "X", "U", "P", "Q", "B", "R"} else ACME
    )
    assert fields == KINDS[kind][1]
    assert said.encoder.take() == (b"", 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_parser_that_we_did_not_write_reads_each_message(kind: str) -> None:
    messages = say(kind).take()
    (theirs,) = itch.parser.MessageParser().parse_stream(b"".join(map(frame, messages)))
    assert theirs.to_bytes() == messages[0]
    assert (theirs.message_type, theirs.timestamp) == (kind[:1].encode(), OPEN)


def test_the_heads_of_packets_say_length_kind_and_locate() -> None:
    said = Said()
    for kind in ("F", "A", "E", "C", "X", "D", "U", "P"):
        KINDS[kind][0](said.encoder)
    data, count = said.encoder.take()
    assert [message[:1].decode() for message in messages_of(data)] == [*"FAECXDUP"]
    assert count == 8


@pytest.mark.parametrize(
    ("near", "reference", "indicator"),
    [
        (10_099, 10_000, "L"),
        (10_100, 10_000, "1"),
        (9_100, 10_000, "9"),
        (11_999, 10_000, "A"),
        (8_000, 10_000, "B"),
        (1, 10_000, "C"),
        (0, 5, ""),
        (5, 0, ""),
        (2**31, 5, ""),
    ],
)
def test_an_imbalance_has_its_distance_from_the_reference(near: int, reference: int, indicator: str) -> None:
    said = Said()
    said.encoder.imbalance(Imbalance(ACME, 2**63, 2**63, "N", 0, near, reference, "C"))
    fields = said.fields()
    assert fields["price_variation_indicator"] == indicator
    assert fields["near_price"] == (near * 100 if near < 2**31 else 0)


@pytest.mark.parametrize(("volume", "price"), [(2**33, 1), (10, 42_949_673)], ids=["shares", "price"])
def test_an_order_beyond_the_fields_is_not_displayed(volume: int, price: int) -> None:
    said = Said()
    large = order(2, side="S", volume=volume, price=price)
    said.encoder.added(large)
    large.volume -= 1
    said.encoder.reduced(large, 1)
    assert said.letters() == ""
    said.encoder.executed(large, 3, 500, 40)
    fields = said.fields()
    assert (fields["buy_sell_indicator"], fields["order_reference_number"], fields["match_number"]) == ("S", 0, 40)
    said.encoder.deleted(large, volume)
    said.encoder.added(large := order(3, volume=volume, price=price))
    large.volume = 0
    said.encoder.executed(large, 2**33, 500, 41)
    said.encoder.added(large := order(4, volume=volume, price=price))
    large.volume = 0
    said.encoder.crossed(large, 1, 500, 42)
    said.encoder.cross(ACME, 1, 2**31, 43, "C")
    assert said.letters() == ""
    assert said.encoder.undisplayed == 3 + 2, "three orders, and two trades without room"
    assert said.encoder.undisplayed_ids == set()


def test_a_replacement_that_changes_display_ends_or_begins() -> None:
    said = Said()
    said.encoder.replaced(order(1), order(2, volume=2**32))
    assert said.letters() == "D"
    assert said.encoder.undisplayed_ids == {2}
    said.encoder.replaced(order(2, volume=2**32), order(3, volume=2**33))
    assert said.letters() == ""
    said.encoder.replaced(order(3, volume=2**33), order(4))
    assert said.letters() == "F"
    assert said.encoder.undisplayed_ids == set()


def test_what_a_recording_may_hold_and_no_field_can_is_left_out() -> None:
    said = Said()
    it = said.encoder
    it.added(order(2, price=-1))
    it.added(order(-3))
    it.printed(ACME, 7, 5, -1, 9)
    it.cross(ACME, 5, -1, 9, "O")
    assert said.letters() == ""
    assert (it.undisplayed, it.undisplayed_ids) == (4, {2, -3})
    it.executed(order(1), 1, -1, 9)
    fields = said.fields()
    assert (fields["printable"], fields["execution_price"]) == ("N", 0)
    it.imbalance(Imbalance(ACME, 1, 1, "B", -1, -1, -1, "O"))
    fields = said.fields()
    assert (fields["far_price"], fields["near_price"], fields["current_reference_price"]) == (0, 0, 0)


def test_the_largest_numbers_that_fit_are_displayed() -> None:
    said = Said()
    said.encoder.added(order(2**64 - 1, volume=2**32 - 1, price=42_949_672))
    assert said.fields()["shares"] == 2**32 - 1
    assert said.encoder.undisplayed == 0


def test_of_what_is_not_listed_nothing_is_said() -> None:
    said = Said()
    it, bitcoin = said.encoder, order(1, BITCOIN)
    it.listed(BITCOIN)
    it.trading(BITCOIN, "T", "")
    it.added(bitcoin)
    it.executed(bitcoin, 1, 1, 1)
    it.crossed(bitcoin, 1, 1, 1)
    it.cross(BITCOIN, 1, 1, 1, "O")
    it.traded(bitcoin, 1, 1, 1)
    it.printed(BITCOIN, 1, 1, 1, 1)
    it.reduced(bitcoin, 1)
    it.replaced(bitcoin, bitcoin)
    it.deleted(bitcoin, 1)
    it.imbalance(Imbalance(BITCOIN, 1, 1, "B", 1, 1, 1, "O"))
    it.busted(BITCOIN, 1)
    assert it.take() == (b"", 0)
    assert it.symbols == ("ACME", "GLOBEX")
    assert it.unlisted == {"BTCUSD": "expected a lot of whole shares, was 0.00000001"}


def test_the_messages_end_where_timestamps_do() -> None:
    said = Said()
    said.encoder.system("O")
    said.now.time_ns = MIDNIGHT + 2**48 - 1
    said.encoder.added(order())
    assert said.letters() == "SF"
    said.now.time_ns += 1
    said.encoder.deleted(order(), 5)
    fields = said.fields()
    assert (fields["event_code"], fields["timestamp"]) == ("C", 2**48 - 1)
    assert said.encoder.is_over
    for say_it, _ in KINDS.values():
        say_it(said.encoder)
    assert said.encoder.take() == (b"", 0)


@pytest.mark.parametrize("cut", range(1, 5))
def test_an_encoder_goes_on_where_its_state_was_taken(cut: int) -> None:
    def steps(said: Said) -> list[Callable[[], None]]:
        def late() -> None:
            said.now.time_ns += 2**48
            said.encoder.added(order(9))

        return [
            lambda: said.encoder.added(order(2, volume=2**32)),
            lambda: said.encoder.added(order(3)),
            lambda: said.encoder.executed(order(2, volume=1), 3, 500, 40),
            late,
            lambda: said.encoder.added(order(10)),
        ]

    whole, first, second = Said(), Said(), Said()
    for step in steps(whole):
        step()
    for step in steps(first)[:cut]:
        step()
    state = msgspec.msgpack.decode(msgspec.msgpack.encode(first.encoder.state()))
    second.encoder.system("O")
    second.encoder.restore(state)
    second.now.time_ns = first.now.time_ns
    for step in steps(second)[cut:]:
        step()
    assert first.take() + second.take() == whole.take()
    assert second.encoder.state() == whole.encoder.state()


def test_a_state_that_is_none_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        Said().encoder.restore([1, 2])
