"""Messages of each protocol that are good, or good enough to be taken apart."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from deltabook.wire import ouch5, ouch42
from deltabook.wire.mold import MoldRequest, encode_request
from deltabook.wire.soupbin import LoginRequest, encode_login, encode_packet
from tests.fuzz.exchange.mutation import mutated

T = TypeVar("T")

__all__ = ["any_login", "mold_request", "ouch5_message", "ouch42_message", "packet", "text_line", "text_login"]

_TAGS = sorted(ouch5.OPTIONS.items())
_SYMBOLS, _NO_SYMBOLS = ("ACME", "ACME", "GLOBEX"), ("NOPE", "")
_OPTIONS = (
    *("", "", "", ",ioc", ",post", ",hidden", ",show=2", ",min=3;ioc"),
    *(",stop=95", ",until=5", ",open", ",;;", ",a=b"),
)
_LETTERS = b"LUROHASZJ+\0?"


def any_login(chance: random.Random, names: tuple[str, ...]) -> bytes:
    """A login packet, mostly one that holds."""
    return encode_login(
        LoginRequest(
            chance.choice(names),
            chance.choice(("secret", "secret", "SECRET", "wrong", "")),
            chance.choice(("", "", "SESSION1", "OTHER")),
            chance.choice((0, 0, 1, 1, 2, 99_999_999, 2**63 - 1)),
            chance.choice((None, None, 0, 1, 5_000, 99_999)),
        )
    )


def packet(chance: random.Random, payload: bytes) -> bytes:
    """A packet of SoupBinTCP, mostly one that carries a message."""
    kind = b"U" if chance.random() < 0.9 else bytes([chance.choice(_LETTERS)])
    framed = encode_packet(kind, payload[:1_000])
    return framed if chance.random() < 0.96 else mutated(chance, framed)


def _often(chance: random.Random, good: Sequence[T], rare: Sequence[T]) -> T:
    """Mostly what can be, so that books fill and orders meet."""
    return chance.choice(good if chance.random() < 0.95 else rare)


def _shares(chance: random.Random) -> int:
    return _often(chance, (100, 200, 300, 500), (0, 1, 2, 999_999, 1_000_000, 2**31, 2**32 - 1))


def _ticks(chance: random.Random) -> int:
    return 9_000 + 100 * chance.randrange(20) if chance.random() < 0.9 else chance.choice((0, 1, 7, 2**31 - 1, 2**31))


def ouch5_message(chance: random.Random, ref: int) -> bytes:
    """A request of OUCH 5.0; `ref` is what a client would give it."""
    letter = chance.choice("OOOOUUXXMQ")
    number = ref if chance.random() < 0.9 else chance.choice((0, 1, ref - 1, 2**32 - 1))
    other = max(0, ref - chance.randrange(8))
    in_force, display = _often(chance, "0003", "56E? "), _often(chance, "YYYN", "A?")
    cross = _often(chance, "N", "OCHSX")
    if letter == "O":
        options: dict[int, int | str] = {}
        for tag, field in chance.sample(_TAGS, chance.choice((0, 0, 0, 0, 0, 0, 1, 2, 4))):
            small = chance.choice((0, 1, 100, 86_399)) & ((1 << 8 * field.width) - 1)
            options[tag] = small if field.kind != "alpha" else chance.choice("PNYA ")
        message = ouch5.encode_request(
            "O", user_ref_num=number, side=_often(chance, "BS", "TE?"), quantity=_shares(chance),
            symbol=_often(chance, _SYMBOLS, _NO_SYMBOLS), price=_ticks(chance),
            time_in_force=in_force, display=display, capacity="P", inter_market_sweep_eligibility="N",
            cross_type=cross, cl_ord_id=str(number), options=options,
        )  # fmt: skip
    elif letter == "U":
        message = ouch5.encode_request(
            "U", orig_user_ref_num=other, user_ref_num=number, quantity=_shares(chance), price=_ticks(chance),
            time_in_force=in_force, display=display, inter_market_sweep_eligibility="N", cl_ord_id="r", options={},
        )  # fmt: skip
    elif letter == "X":
        message = ouch5.encode_request("X", user_ref_num=other, quantity=chance.choice((0, 1, 100, 10**9)))
    elif letter == "M":
        message = ouch5.encode_request("M", user_ref_num=other, side=chance.choice("BSTE"), quantity=_shares(chance))
    else:
        message = ouch5.encode_request("Q")
    return message if chance.random() < 0.8 else mutated(chance, message)


def ouch42_message(chance: random.Random, ref: int) -> bytes:
    """A request of OUCH 4.2."""
    letter = chance.choice("OOOOUUXXMN")
    token, other = f"T{ref}", f"T{max(0, ref - chance.randrange(8))}"
    in_force = _often(chance, (0, 99_998, 99_998, 99_999), (5, 2**32 - 1))
    display, price = _often(chance, "YYYN", "API?"), _ticks(chance)
    if letter == "O":
        message = ouch42.encode_request(
            "O", order_token=token if chance.random() < 0.9 else other, buy_sell_indicator=_often(chance, "BS", "TE?"),
            shares=_shares(chance), stock=_often(chance, _SYMBOLS, _NO_SYMBOLS), price=price,
            time_in_force=in_force, firm="F", display=display, capacity="P", intermarket_sweep_eligibility="N",
            minimum_quantity=_often(chance, (0,), (100,)), cross_type=_often(chance, "N", "OCH?"), customer_type="R",
        )  # fmt: skip
    elif letter == "U":
        message = ouch42.encode_request(
            "U", existing_order_token=other, replacement_order_token=token, shares=_shares(chance), price=price,
            time_in_force=in_force, display=display, intermarket_sweep_eligibility="N", minimum_quantity=0,
        )  # fmt: skip
    elif letter == "X":
        message = ouch42.encode_request("X", order_token=other, shares=chance.choice((0, 1, 100, 10**9)))
    elif letter == "M":
        message = ouch42.encode_request(
            "M", order_token=other, buy_sell_indicator=chance.choice("BSTE"), shares=_shares(chance)
        )
    else:
        message = ouch42.encode_request("N", order_token=other)
    return message if chance.random() < 0.8 else mutated(chance, message)


def text_login(chance: random.Random, broker: int) -> bytes:
    """The first line of a text client."""
    me = b"0,%d," % broker
    line = chance.choice((me + b",0", me + b"SESSION1,1", me + b",0,1", b"0", b"1", b"1,,0", b"1,,1", b"1,OTHER,1"))
    return (line if chance.random() < 0.8 else mutated(chance, line)) + b"\n"


def text_line(chance: random.Random, broker: int, ref: int, newest: int) -> bytes:
    """A line of a text client; `newest` is the exchange's newest order id."""
    action = _often(chance, "BBBSSSXDU", "M?")
    order, symbol = max(0, newest - chance.randrange(20)), _often(chance, _SYMBOLS, _NO_SYMBOLS)
    number = ref if chance.random() < 0.95 else chance.choice((0, -1, 2**63))
    volume, price = _often(chance, (1, 5, 100), (0, 2**63, -3)), 90 + chance.randrange(20)
    options = chance.choice(
        (
            "",
            "",
            "",
            ",ioc",
            ",post",
            ",hidden",
            ",show=2",
            ",min=3;ioc",
            ",stop=95",
            ",until=5",
            ",open",
            ",;;",
            ",a=b",
        )
    )
    line = f"{number},0,{order},{broker},{action},{volume},{price},{symbol}{options}"
    fields = line.encode()
    if chance.random() < 0.4:
        fields = mutated(chance, fields)
    return fields + chance.choice((b"\n", b"\n", b"\n", b"\r\n"))


def mold_request(chance: random.Random) -> bytes:
    """A request for messages that were lost."""
    asked = MoldRequest(
        chance.choice(("SESSION1", "OTHER", "")),
        chance.choice((0, 1, 2, 500, 2**32, 2**64 - 1)),
        chance.choice((0, 1, 100, 65_535)),
    )
    data = encode_request(asked)
    return data if chance.random() < 0.3 else mutated(chance, data)


def ouch5_query() -> bytes:
    """An account query, which is always answered."""
    return ouch5.encode_request("Q")
