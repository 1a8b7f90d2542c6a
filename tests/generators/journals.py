"""Exchanges on journals, and their inputs: the start of tests of the journal."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from exchange_server.day import MarketClock
from exchange_server.exchange import Exchange
from exchange_server.journal import Journal
from exchange_server.matching.inputs import AnyInput, Enter, MarketRules, OpenAccount
from exchange_server.matching.market import AccountProtocol, Market
from exchange_server.matching.outputs import FeedEncoder, Now
from exchange_server.nasdaq.itch import ItchEncoder
from exchange_server.text import TextEncoder, TextProtocol
from tests.generators.exchange_requests import START_NS, RequestFlow, opening_requests, random_rules

__all__ = ["account", "enter", "forget_boot", "make_outputs", "open_exchange", "random_inputs"]


def make_outputs(rules: MarketRules, now: Now) -> tuple[Mapping[str, FeedEncoder], Sequence[AccountProtocol]]:
    """Return both forms of the feed, and the text protocol."""
    return {"text": TextEncoder(rules, now), "itch": ItchEncoder(rules, now)}, (TextProtocol(rules),)


def open_exchange(path: Path, rules: MarketRules, forms: Sequence[str] = ("text", "itch"), **journal: Any) -> Exchange:
    """Return an exchange with these forms of the feed; ``journal`` are further arguments of `Journal`."""
    now = Now()
    encoders, protocols = make_outputs(rules, now)
    chosen = {form: encoders[form] for form in forms}
    opened = Journal(path, rules, lambda: "SESSION1", **journal)
    try:
        return Exchange(opened, MarketClock(lambda: 0.0, START_NS), chosen, protocols, now)
    except BaseException:
        opened.close()
        raise


def forget_boot(path: Path) -> None:
    """Leave a directory as after a power loss: nothing shows that all writes survived."""
    (path / "lock").unlink(missing_ok=True)


def random_inputs(seed: int, count: int, *, plays: bool = True) -> tuple[MarketRules, list[AnyInput]]:
    """Return the rules of a market and requests of every kind, the first of which open accounts."""
    chance = random.Random(seed)
    rules = random_rules(chance, plays=plays)
    accounts = opening_requests(chance, START_NS, ("text",))
    market = Market(rules)
    flow = RequestFlow(chance, rules, accounts, START_NS + len(accounts))
    inputs: list[AnyInput] = list(accounts)
    for item in accounts:
        market.apply(item)
    while len(inputs) < count:
        inputs.append(flow.next([order for book in market.books.values() for order in book.orders.values()]))
        market.apply(inputs[-1])
    return rules, inputs


def account(time_ns: int = START_NS, number: int = 1) -> OpenAccount:
    """Return the opening of an account of the text protocol."""
    return OpenAccount(time_ns, f"text:{number}", "text", number)


def enter(number: int, side: str = "B", price: int = 100) -> Enter:
    """Return an order of account 1 with this number."""
    return Enter(START_NS + number, 1, 1, number, "ACME", side, 5, price)
