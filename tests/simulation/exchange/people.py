"""Users and clients of a simulated exchange."""

from __future__ import annotations

import hashlib
import random
from base64 import b64encode
from typing import Any, Final

from exchange_server.logins import PasswordHash, User
from exchange_server.matching.order import AccountLimits
from tests.simulation.exchange.clients import Client, SoupReader, TextReader
from tests.simulation.exchange.shape import Shape
from tests.simulation.exchange.traders import Ouch5Trader, Ouch42Trader, TextTrader

__all__ = ["clients_of", "users_of"]

_PASSWORD: Final = "SECRET"
_CHEAP: Final = "scrypt$1$1$1$"
"""Form of a hash that takes no time."""


def users_of(shape: Shape) -> dict[str, User]:
    """Return the users of the OUCH port."""
    secret = _cheap_secret()
    protocols: tuple[Any, ...] = ("ouch5", "ouch42")
    return {
        name: User(
            name=name, secret=secret, broker_id=number, protocol=protocol, limits=AccountLimits(),
            self_trade=shape.self_trade, cancel_on_disconnect=number == 2,
        )
        for number, (name, protocol) in enumerate(zip(("ALPHA", "BETA"), protocols, strict=True), 1)
    }  # fmt: skip


def _cheap_secret() -> PasswordHash:
    salt = b"s" * 16
    digest = hashlib.scrypt(_PASSWORD.encode(), salt=salt, n=2, r=1, p=1, dklen=32)
    return PasswordHash.parse(_CHEAP + f"{b64encode(salt).decode()}${b64encode(digest).decode()}")


def clients_of(chance: random.Random, shape: Shape) -> list[Client]:
    """Return all clients; some readers, brokers and users have more than one."""
    brokers = range(1, shape.brokers + 1)
    clients: list[Client] = [TextReader("lines"), SoupReader("packets", "itch")]
    clients += (TextTrader(f"broker {number}", number, cancels=number == 3) for number in brokers)
    clients.append(Ouch5Trader("ALPHA", "ALPHA", _PASSWORD))
    clients.append(Ouch42Trader("BETA", "BETA", _PASSWORD))
    for number in range(shape.duplicates):
        twins = (
            TextReader(f"lines {number}"),
            TextTrader("broker 1 again", 1, cancels=False),
            Ouch5Trader("ALPHA again", "ALPHA", _PASSWORD),
        )
        clients.append(chance.choice(twins))
    return clients
