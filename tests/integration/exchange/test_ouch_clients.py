"""A client that we did not write trades over OUCH with an exchange that runs as a process of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from exchange_server.logins import hash_password
from tests.generators.ouch_client import OuchClient, enter_order
from tests.integration._processes import DEADLINE_S, Running

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

PASSWORD = "secret"
ORDERS = 300


def users_file(folder: Path) -> Path:
    file = folder / "users.toml"
    file.write_text(
        "".join(
            f'[[user]]\nname = "{name}"\npassword = "{hash_password(PASSWORD)}"\nbroker = {broker}\n'
            for broker, name in enumerate(("ALPHA", "BRAVO"), 1)
        )
    )
    file.chmod(0o600)
    return file


def market(folder: Path, port: int = 0) -> Running:
    """An exchange without flow of its own."""
    options = ["--dir", str(folder / "exchange"), "--port", "none", "--ouch-port", str(port), "--users"]
    options += [str(users_file(folder)), "--agents", "none", "--instruments", "ACME", "--status-interval", "0.1"]
    return Running("exchange", *options)


def client(name: str, password: str = PASSWORD) -> OuchClient:
    return OuchClient(name, password, DEADLINE_S)


async def buy(bravo: OuchClient, first: int, count: int) -> None:
    """BRAVO buys one share of what ALPHA offers, so many times."""
    for ref in range(first, first + count):
        bravo.send(enter_order(ref, "B", 1, 100_000))
    await bravo.hear("E", first + count - 1)


async def trade_through_everything(folder: Path) -> tuple[OuchClient, OuchClient, OuchClient]:
    """Two users trade; one is cut, then the exchange is killed and stopped; a third client reads the first's stream."""
    alpha, bravo, again = client("ALPHA"), client("BRAVO"), client("ALPHA")
    with market(folder) as running:
        port, session = running.ready().ports["ouch"], str(running.figures()["session"])
        await alpha.connect(port)
        await bravo.connect(port)
        alpha.send(enter_order(1, "S", 3 * ORDERS, 100_000))
        await alpha.hear("A", 1)
        for ref in range(1, ORDERS + 1):
            bravo.send(enter_order(ref, "B", 1, 100_000))
        await alpha.hear("E", ORDERS // 3)
        await alpha.cut()
        await bravo.hear("E", ORDERS)
        with pytest.raises(ConnectionRefusedError):
            await alpha.connect(port, "OTHER")
        with pytest.raises(ConnectionRefusedError):
            await client("ALPHA", "guess").connect(port)
        await alpha.connect(port, session)
        await alpha.hear("E", ORDERS)
        await asyncio.to_thread(running.kill)
        await alpha.closed()
        await bravo.closed()
    with market(folder, port) as running:
        running.ready()
        await bravo.connect(port, session)
        await buy(bravo, ORDERS + 1, ORDERS)
        await alpha.connect(port, session)
        await alpha.hear("E", 2 * ORDERS)
        await asyncio.to_thread(running.stop)
        await alpha.closed()
        await bravo.closed()
    with market(folder, port) as running:
        running.ready()
        await alpha.connect(port, session)
        await bravo.connect(port, session)
        await again.connect(port, session)
        await buy(bravo, 2 * ORDERS + 1, ORDERS)
        for each in (alpha, again):
            await each.hear("E", 3 * ORDERS)
            await each.log_out()
        await bravo.log_out()
    return alpha, bravo, again


def test_nasdaqs_client_trades_and_misses_nothing_over_kills(tmp_path: Path) -> None:
    alpha, bravo, again = asyncio.run(trade_through_everything(tmp_path))
    assert alpha.told == again.told
    assert [alpha.count(letter) for letter in "SAE"] == [1, 1, 3 * ORDERS]
    assert [bravo.count(letter) for letter in "SAE"] == [1, 3 * ORDERS, 3 * ORDERS]
    sold, bought = ([each for each in who.messages if "match_number" in each.record.values] for who in (alpha, bravo))
    for passive, active in zip(sold, bought, strict=True):
        assert passive.match_number == active.match_number
        assert (passive.quantity, passive.price, passive.liquidity_flag) == (1, 100_000, "A")
        assert (active.quantity, active.price, active.liquidity_flag) == (1, 100_000, "R")
    assert [message.user_ref_num for message in bought] == list(range(1, 3 * ORDERS + 1))
    times = [message.timestamp for message in alpha.messages]
    assert times == sorted(times)
