"""Clients of PostgreSQL that are not ours, against a runtime in a process of its own while a market goes on."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import subprocess
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pandas as pd
import psycopg
import pytest
import sqlalchemy as sa

from queries import query_path
from tests.generators.certificates import make_certificate
from tests.integration._processes import Running, exchange, runtime

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

VIEWS = ("best_quote", "broker_volume")
TRACE = query_path("book_depth").with_name("trace-5000.csv")
REPLAY = ["--replay", str(TRACE), "--replay-mode", "as-recorded", "--symbol", "TRACE", "--start-on", "1"]
TOKEN = "a token of twenty-four"


def started(directory: Path, market: Running, *options: str) -> Running:
    """A runtime of express views alone."""
    lane = ["--no-spark", "--express", ",".join(str(query_path(view)) for view in VIEWS), "--epoch-messages", "200"]
    return runtime(directory / "runtime", market.ready().ports["text"], [], *lane, "--pg-port", "0", *options)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A runtime that has read a market's first messages."""
    directory = tmp_path_factory.mktemp("served")
    with exchange(directory / "exchange", *REPLAY, "--speed", "20") as market, started(directory, market) as engine:
        engine.wait_for("messages", 2_000)
        yield engine


@pytest.fixture(scope="module")
def where(served: Running) -> dict[str, Any]:
    """How to connect."""
    return {"host": "127.0.0.1", "port": served.ready().ports["postgres"], "user": "me"}


@pytest.fixture
def connection(where: dict[str, Any]) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(**where, dbname="deltabook", autocommit=True) as opened:
        yield opened


def psql(where: dict[str, Any], *commands: str) -> str:
    """What psql prints: rows without their frame."""
    program = shutil.which("psql")
    assert program, "expected psql on the path (apt-get install postgresql-client), was none"
    words = [word for command in commands for word in ("-c", command)]
    ends = ["-h", where["host"], "-p", str(where["port"]), "-U", where["user"], "-d", "deltabook"]
    done = subprocess.run(
        [program, "-X", "-At", *ends, *words], capture_output=True, text=True, timeout=200, check=False
    )
    return done.stdout + done.stderr


def test_psql_describes_relations_and_views(where: dict[str, Any]) -> None:
    found = psql(where, r"\d", r"\d best_quote", r"\l", r"\dn", r"\df")
    assert "public|bids|table|deltabook" in found
    assert "public|best_quote|view|deltabook" in found
    assert "symbol|text|||" in found
    assert "bid_volume|numeric|||" in found
    assert "deltabook|deltabook|UTF8" in found
    assert "ERROR" not in found


def test_psql_is_told_where_an_error_is(where: dict[str, Any]) -> None:
    found = psql(where, "SELECT symbol,\n  nothing FROM best_quote", "SELECT 7")
    assert "LINE 2:   nothing FROM" in found
    assert "7" in found.splitlines()


def test_psql_prepares_and_explains(where: dict[str, Any]) -> None:
    found = psql(where, "PREPARE q (bigint) AS SELECT symbol FROM best_quote WHERE bid_price > $1; EXECUTE q (1)")
    assert found.splitlines()[-1] == "TRACE"
    found = psql(where, "EXPLAIN SELECT symbol, SUM(volume) FROM bids GROUP BY symbol")
    assert "Group By" in found
    assert "ERROR" not in found


def test_psycopg_asks_with_parameters_and_cursors(connection: psycopg.Connection[Any], where: dict[str, Any]) -> None:
    rows = connection.execute("SELECT symbol, bid_price FROM best_quote WHERE bid_price > %s", (1,)).fetchall()
    assert [row[0] for row in rows] == ["TRACE"]
    with psycopg.connect(**where) as other:
        total = other.execute("SELECT COUNT(*) FROM bids").fetchone()
        with other.cursor("named", binary=True) as cursor:
            cursor.execute("SELECT id, price FROM bids")
            listed = cursor.fetchmany(100) + cursor.fetchall()
    assert total == (len(listed),)  # of one version, while the market goes on
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        connection.execute("DELETE FROM bids")


def test_a_statement_is_cancelled(connection: psycopg.Connection[Any]) -> None:
    timer = threading.Timer(0.5, connection.cancel)
    timer.start()
    with pytest.raises(psycopg.errors.QueryCanceled, match="asked to cancel"):
        connection.execute("SELECT COUNT(*) FROM range(10000000000) a, range(1000) b WHERE a.range % 7 = b.range % 5")
    timer.join()
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_asyncpg_reads_in_binary(where: dict[str, Any]) -> None:
    async def ask() -> tuple[Any, ...]:
        client = await asyncpg.connect(**where, database="deltabook")
        try:
            async with client.transaction():
                listed = [row async for row in client.cursor("SELECT id FROM bids", prefetch=50)]
                count = await client.fetchval("SELECT COUNT(*) FROM bids")
            lists = await client.fetchrow("SELECT [1, 2]::bigint[] AS a, 2.50::decimal(9,2) AS b, $1::int AS c", 5)
            return len(listed), count, tuple(lists)
        finally:
            await client.close()

    listed, count, row = asyncio.run(ask())
    assert listed == count
    assert ([*row[0]], str(row[1]), row[2]) == ([1, 2], "2.50", 5)


def test_sqlalchemy_reflects_and_pandas_reads(where: dict[str, Any]) -> None:
    engine = sa.create_engine(f"postgresql+psycopg://me@127.0.0.1:{where['port']}/deltabook")
    inspector = sa.inspect(engine)
    assert {"bids", "asks", "trades"} <= set(inspector.get_table_names())
    assert set(inspector.get_view_names()) == set(VIEWS)
    assert inspector.has_table("bids")
    assert not inspector.has_table("nothing")
    columns = {column["name"]: str(column["type"]) for column in inspector.get_columns("best_quote")}
    assert (columns["symbol"], columns["bid_price"], columns["bid_volume"]) == ("TEXT", "BIGINT", "NUMERIC")
    frame = pd.read_sql("SELECT * FROM best_quote", engine)
    assert list(frame["symbol"]) == ["TRACE"]
    engine.dispose()


def test_grafana_asks_for_a_series(connection: psycopg.Connection[Any]) -> None:
    """Its macros, as the data source expands them."""
    series = """
    SELECT floor(extract(epoch from make_timestamp(t // 1000))/300)*300 AS "time", avg(price) AS value FROM bids
    WHERE make_timestamp(t // 1000) BETWEEN '1970-01-01T00:00:00Z' AND '2200-01-01T00:00:00.5Z' GROUP BY 1 ORDER BY 1
    """
    assert connection.execute(series).fetchall()


def test_fifty_subscribers_add_up_to_the_view(served: Running, where: dict[str, Any]) -> None:
    """Snapshot and changes of each, up to an epoch, are the view at that epoch."""
    totals: list[tuple[int, Counter[tuple[str, ...]]]] = []
    last = served.wait_for("messages", 4_700)["epoch"]

    async def follow() -> None:
        client = await asyncpg.connect(**where, database="deltabook")
        held: Counter[tuple[str, ...]] = Counter()
        at, enough = 0, asyncio.Event()
        pending = b""

        async def take(data: bytes) -> None:
            nonlocal at, pending
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                epoch, weight, *row = line.decode().split("\t")
                held[tuple(row)] += int(weight)
                at = int(epoch)
            if at >= last:
                enough.set()

        copying = asyncio.ensure_future(
            client.copy_from_query("SUBSCRIBE broker_volume", output=take, format="text", timeout=240)
        )
        waiting = asyncio.ensure_future(enough.wait())
        await asyncio.wait([copying, waiting], return_when=asyncio.FIRST_COMPLETED, timeout=200)
        assert enough.is_set(), copying
        totals.append((at, +held))
        copying.cancel()
        await asyncio.gather(copying, return_exceptions=True)
        client.terminate()

    async def everybody() -> None:
        await asyncio.gather(*(follow() for _ in range(50)))

    asyncio.run(everybody())
    assert len(totals) == 50
    with psycopg.connect(**where, autocommit=True) as client:
        for epoch in {at for at, _ in totals}:
            with client.cursor().copy(f"COPY (SELECT * FROM broker_volume AS OF EPOCH {epoch}) TO STDOUT") as rows:
                expected = Counter(tuple(line.split("\t")) for line in b"".join(rows).decode().splitlines())
            assert all(held == expected for at, held in totals if at == epoch)
    with urllib.request.urlopen(f"http://127.0.0.1:{served.ready().ports['http']}/v1/statistics") as answer:
        assert json.load(answer)["postgres"]["sessions"] >= 50


def test_a_subscription_goes_on_from_an_epoch(connection: psycopg.Connection[Any]) -> None:
    def first(sql: str) -> tuple[str, ...]:
        with connection.cursor().copy(sql) as rows:
            row = next(iter(rows.rows()))
            connection.cancel()
            with pytest.raises(psycopg.errors.QueryCanceled):
                for _ in rows.rows():
                    pass
        return tuple(str(value) for value in row)

    begin = int(first("COPY (SUBSCRIBE best_quote) TO STDOUT")[0])
    (epoch, *_) = first(f"COPY (SUBSCRIBE best_quote AS OF {max(1, begin - 3)}) TO STDOUT")
    assert begin - 3 < int(epoch) <= begin
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="expected an epoch of this run"):
        first("COPY (SUBSCRIBE best_quote AS OF 1000000000) TO STDOUT")


def test_strangers_need_the_token_and_tls(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN.replace(" ", "-"))
    cert, key = make_certificate(tmp_path)
    security = ["--token-file", str(tmp_path / "token"), "--tls-cert", str(cert), "--tls-key", str(key)]
    with exchange(tmp_path / "exchange", *REPLAY) as market, started(tmp_path, market, *security) as engine:
        ends: dict[str, Any] = {"host": "127.0.0.1", "port": engine.ready().ports["postgres"], "user": "me"}
        with psycopg.connect(**ends, password=TOKEN.replace(" ", "-"), sslmode="require", autocommit=True) as client:
            assert client.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(psycopg.OperationalError, match="expected the token as the password"):
            psycopg.connect(**ends, password="another", sslmode="require")
        with pytest.raises(psycopg.OperationalError, match="expected a connection with TLS"):
            psycopg.connect(**ends, password=TOKEN, sslmode="disable")

        async def ask() -> Any:
            context = ssl.create_default_context(cafile=str(cert))
            context.check_hostname = False
            client = await asyncpg.connect(**ends, password=TOKEN.replace(" ", "-"), ssl=context)
            try:
                return await client.fetchval("SELECT 1")
            finally:
                await client.close()

        assert asyncio.run(ask()) == 1
