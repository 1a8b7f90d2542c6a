"""Relations that the queries of the conformance tests read, and random rows of them.

Values come from small sets, so that rows join, repeat and cancel. Fractions are multiples of 1/4, so that intermediate
results of DuckDB in DOUBLE are exact, and only divisions and roots are compared within a bound.
"""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from typing import Any, Final

from runtime.compiler import Column, Relation

__all__ = ["RELATIONS", "Row", "domain", "random_row"]

Row = tuple[Any, ...]

_ORDERS = (
    *(Column(name, "int64") for name in ("t", "id", "broker_id", "volume", "price")),
    Column("symbol", "string"),
)

RELATIONS: Final = (
    Relation("bids", _ORDERS),
    Relation("asks", _ORDERS),
    Relation(
        "trades",
        (
            Column("t", "int64"),
            Column("match_id", "int64"),
            Column("symbol", "string"),
            Column("price", "int64"),
            Column("volume", "int64"),
            Column("side", "string", nullable=True),
            Column("broker_id", "int64", nullable=True),
        ),
    ),
    Relation(
        "sales",
        (
            Column("id", "int64"),
            Column("customer_id", "int64", nullable=True),
            Column("product_id", "int64"),
            Column("store_id", "int64", nullable=True),
            Column("quantity", "int64", nullable=True),
            Column("amount", "int64", nullable=True, scale=2),
            Column("day", "date", nullable=True),
            Column("sold_at", "timestamp"),
            Column("channel", "string", nullable=True),
            Column("returned", "bool", nullable=True),
            Column("rating", "float64", nullable=True),
        ),
    ),
    Relation(
        "customers",
        (
            Column("id", "int64"),
            Column("name", "string"),
            Column("city", "string", nullable=True),
            Column("segment", "int64", nullable=True),
            Column("since", "date"),
            Column("vip", "bool"),
        ),
    ),
    Relation(
        "products",
        (
            Column("id", "int64"),
            Column("category", "string"),
            Column("price", "int64", scale=2),
            Column("tax", "int64", scale=1),
            Column("colour", "string", nullable=True),
        ),
    ),
    Relation(
        "stores",
        (
            Column("id", "int64"),
            Column("city", "string"),
            Column("area", "int64", nullable=True),
            Column("opened", "date", nullable=True),
        ),
    ),
    # Few values and no key: most rows occur several times. A column may have the name of a delta's weight.
    Relation(
        "visits",
        (
            Column("store_id", "int64", nullable=True),
            Column("minute", "int64"),
            Column("tag", "string", nullable=True),
            Column("weight", "int64", nullable=True),
        ),
    ),
)

_DAY: Final = date(2024, 2, 27)
_MIDNIGHT: Final = datetime(2024, 2, 27)  # noqa: DTZ001 - the column has no zone
_CITIES: Final = ("Bonn", "Aix", "Split", "")
_DOMAINS: Final[dict[str, tuple[Any, ...]]] = {
    "bids.t": (0, 1, 2, 3, 5, 8, 13, 1_000_000_000, 1_600_000_000),
    "bids.id": tuple(range(1, 8)),
    "bids.broker_id": (0, 1, 2),
    "bids.volume": (1, 2, 5, 100, 3000),
    "bids.price": (1, 2, 3, 5, 1500, 3000),
    "bids.symbol": ("ACME", "BETA"),
    "trades.t": (0, 400_000_000, 999_999_999, 1_000_000_000, 1_500_000_000, 3_000_000_000, 61_000_000_000),
    "trades.match_id": tuple(range(1, 9)),
    "trades.symbol": ("ACME", "BETA"),
    "trades.price": (98, 99, 100, 101, 105),
    "trades.volume": (1, 2, 5, 100),
    "trades.side": ("B", "S"),
    "trades.broker_id": (0, 1, 2),
    "sales.id": tuple(range(1, 7)),
    "sales.customer_id": (1, 2, 3),
    "sales.product_id": (1, 2, 3),
    "sales.store_id": (1, 2, 3),
    "sales.quantity": (-1, 0, 1, 2, 3, 10),
    "sales.amount": (-250, 0, 25, 100, 150, 1075, 99900),
    "sales.day": tuple(_DAY + timedelta(days) for days in (0, 1, 2, 3, 35, 310)),
    "sales.sold_at": tuple(_MIDNIGHT + timedelta(seconds=s) for s in (0, 1, 59, 90000, 259199, 25920005)),
    "sales.channel": ("web", "shop", "web shop", "We%b", ""),
    "sales.returned": (True, False),
    "sales.rating": (-1.5, -0.0, 0.0, 0.25, 2.5, 4.0),
    "customers.id": (1, 2, 3, 4),
    "customers.name": ("Ann", "Bob", "ann", "Zoë"),
    "customers.city": _CITIES,
    "customers.segment": (0, 1, 2),
    "customers.since": tuple(_DAY - timedelta(days) for days in (0, 1, 400)),
    "customers.vip": (True, False),
    "products.id": (1, 2, 3, 4),
    "products.category": ("tea", "cup", "tray"),
    "products.price": (25, 100, 150, 1075),
    "products.tax": (0, 5, 25),
    "products.colour": ("red", "blue"),
    "stores.id": (1, 2, 3, 4),
    "stores.city": _CITIES,
    "stores.area": (-5, 0, 10, 20),
    "stores.opened": tuple(_DAY - timedelta(days) for days in (-1, 0, 30)),
    "visits.store_id": (1, 2),
    "visits.minute": (0, 1, 4, 5, 9, 10),
    "visits.tag": ("a", "b"),
    "visits.weight": (-1, 1, 2),
}  # fmt: skip
_HUGE: Final = (2**62 - 1, 2**62 + 3, -(2**62) - 1, 2**63 - 1, -(2**63))


def domain(relation: Relation, column: Column) -> tuple[Any, ...]:
    """Return the values that a column can have; the first one is NULL if the column is nullable."""
    table = "bids" if relation.name == "asks" else relation.name
    return ((None,) if column.nullable else ()) + _DOMAINS[f"{table}.{column.name}"]


def random_row(rng: random.Random, relation: Relation, *, huge: bool = False) -> Row:
    """Return a random row; with ``huge`` some integers are near the limits of 64 bits."""
    values: list[Any] = []
    for column in relation.columns:
        if column.nullable and rng.random() < 0.15:
            values.append(None)
        elif huge and column.type == "int64" and rng.random() < 0.15:
            values.append(rng.choice(_HUGE))
        else:
            values.append(rng.choice(domain(relation, column)[column.nullable :]))
    return tuple(values)
