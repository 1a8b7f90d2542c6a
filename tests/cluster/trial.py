"""A cluster that is hurt: what must hold of it afterwards, to the last row and lot, and how long recovery takes."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from deltabook.wire.results import WEIGHT, FrameDecoder
from deltabook.wire.text import parse_feed_message
from queries import query_path
from runtime.compiler import read_script
from tests.cluster.compose import STATE, ComposeCluster
from tests.cluster.engine import EngineError
from tests.cluster.report import Report
from tests.integration._oracle import Replayed
from tests.integration.test_query_run import FINANCE, expected

__all__ = ["EXPRESS", "SPARK", "Trial", "on_trial", "trial_override"]

SYMBOL: Final = "ACME"
BOOKS: Final = {
    f"all_{book}": f"SELECT t, id, broker_id, volume, price, symbol, COUNT(*) AS n FROM {book} "
    "GROUP BY t, id, broker_id, volume, price, symbol"
    for book in ("bids", "asks")
}
"""The relations themselves, as views."""
SHIPPED: Final = ("vwap_book", "broker_volume", "trades_1s")
SPARK: Final = (*FINANCE, *BOOKS, *SHIPPED)
EXPRESS: Final = ("book_depth", "best_quote", "imbalance")
_SHIPPED_EXPRESS: Final = (*EXPRESS, "tape", "vwap_trades")
_DEADLINE_S: Final = 600.0
_START_S: Final = 900.0
_LOOK_S: Final = 0.2
_MORE_ORDERS: Final = 3
_CHUNK: Final = 5_000
Rows = Counter[tuple[Any, ...]]


def trial_override(
    folder: Path,
    *,
    environment: Mapping[str, Mapping[str, str]] | None = None,
    mounts: Mapping[str, Sequence[str]] | None = None,
    volume: Mapping[str, Any] | None = None,
) -> Path:
    """A second compose file: one symbol, the views of the trial, and a container from which questions are asked.

    ``environment`` and ``mounts`` are added to services by name, ``volume`` says what the volume is instead.
    """
    views = folder / "views"
    views.mkdir(parents=True)
    for name in FINANCE:
        (views / f"{name}.sql").write_text(read_script(query_path(name)).selects[0].sql + ";\n")
    for name, sql in BOOKS.items():
        (views / f"{name}.sql").write_text(sql + ";\n")
    for name in (*SHIPPED, *_SHIPPED_EXPRESS):
        (views / f"{name}.sql").write_text(query_path(name).read_text())
    views.chmod(0o755)
    secrets = ["ca.pem", "exchange.token", "runtime.token", "algo.token"]
    own: dict[str, Any] = {
        "exchange": {
            "environment": {"DELTABOOK_EXCHANGE_INSTRUMENTS": SYMBOL, "DELTABOOK_EXCHANGE_STATUS_INTERVAL": "1"}
        },
        "runtime": {
            "environment": {
                "DELTABOOK_RUNTIME_VIEWS": ",".join(f"/views/{name}.sql" for name in SPARK),
                "DELTABOOK_RUNTIME_EXPRESS": ",".join(f"/views/{name}.sql" for name in _SHIPPED_EXPRESS),
            },
            "volumes": [f"{views}:/views:ro"],
        },
        "probe": {
            "image": "${DELTABOOK_IMAGE}",
            "entrypoint": ["tini", "--", "sleep", "infinity"],
            "networks": ["cluster"],
            "secrets": secrets,
            "volumes": [f"state:{STATE}"],
            "init": False,
        },
    }
    for name, variables in (environment or {}).items():
        own.setdefault(name, {}).setdefault("environment", {}).update(variables)
    for name, mounted in (mounts or {}).items():
        own.setdefault(name, {}).setdefault("volumes", []).extend(mounted)
    content = {"services": own, **({"volumes": {"state": volume}} if volume else {})}
    path = folder / "trial.yml"
    path.write_text(json.dumps(content))  # JSON is YAML
    return path


@contextmanager
def on_trial(cluster: ComposeCluster, report: Report) -> Iterator[Trial]:
    """A cluster that comes up, in whatever time it takes, is hurt, and goes down."""
    try:
        scale = ("--scale", f"spark-worker={cluster.workers}")
        waiting = ("--wait", "--wait-timeout", str(int(_START_S)))
        cluster.compose("up", "-d", "--no-build", *waiting, *scale, timeout_s=_START_S + 60)
        with Trial(cluster, report) as trial:
            yield trial
    except BaseException as error:
        error.add_note(cluster.last_words())
        raise
    finally:
        cluster.down()


class Trial:
    """A cluster that is up, an oracle that follows its feed, and a probe in its network; one owner, one thread."""

    def __init__(self, cluster: ComposeCluster, report: Report) -> None:
        self.cluster, self._report = cluster, report
        self._oracle = Replayed()
        script = Path(__file__).with_name("_probe.py").read_text()
        command = ["docker", "exec", "-i", cluster.name("probe"), "python", "-u", "-c", script]
        self._probe = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._probe.kill()
        self._probe.wait(60)
        for stream in (self._probe.stdin, self._probe.stdout):
            if stream is not None:
                stream.close()

    def ask(self, what: str, *arguments: Any) -> Any:
        """What the probe is answered: see its functions; raises `EngineError` for a part that does not answer."""
        assert self._probe.stdin is not None
        assert self._probe.stdout is not None
        self._probe.stdin.write(json.dumps([what, *arguments]).encode() + b"\n")
        self._probe.stdin.flush()
        line = self._probe.stdout.readline()
        answer = json.loads(line) if line else {"error": "the probe has ended"}
        if "error" in answer:
            raise EngineError(answer["error"])
        return answer["answer"]

    def until(self, claim: Callable[[], bool], words: str) -> None:
        """Return when a claim holds; raises `EngineError` with ``words``."""
        begin_s, last = time.monotonic(), ""
        while time.monotonic() - begin_s < _DEADLINE_S:
            try:
                if claim():
                    return
            except EngineError as error:  # a part that is being started
                last = str(error)
            self.cluster.pass_time(_LOOK_S)
        raise EngineError(f"expected {words} within {_DEADLINE_S:g} s {last}\n{self.cluster.last_words()}")

    def orders_sent(self) -> int:
        """By all strategies, ever."""
        return sum(line["orders_sent"] for line in self.ask("status", "algo")["strategies"])

    def behind(self) -> int:
        """Epochs that are sealed and not published."""
        status = self.ask("status", "runtime")
        return int(status["epoch"]) - int(status["published_epoch"])

    def hurt(
        self, what: str, strike: Callable[[], object], *, hold_s: float = 0.0, relieve: Callable[[], object] = int
    ) -> None:
        """Strike, hold for a while, relieve; then wait until it has recovered, enter how long that took, and check.

        What heals itself is timed from the strike on, all else from the relief.
        """
        self.until(lambda: self.orders_sent() > 0, "strategies that trade")
        sent = self.orders_sent()
        begin_s = time.monotonic()
        strike()
        if hold_s:
            self.cluster.pass_time(hold_s)
            relieve()
            begin_s = time.monotonic()
        for part, is_well in (
            ("views", self._follows()),
            ("strategies", lambda: self.orders_sent() >= sent + _MORE_ORDERS),
        ):
            self.until(is_well, f"{part} that work again after: {what}")
            self._report.enter("faults", f"{what}: {part} again", time.monotonic() - begin_s, "s")
        self.check()

    def _follows(self) -> Callable[[], bool]:
        """Whether what is published covers the feed as it was when the exchange answered first."""
        marks: list[int] = []

        def follows() -> bool:
            if not marks:
                marks.append(self.ask("position"))
            status = self.ask("status", "runtime")
            if len(marks) == 1 and status["feed_sequence"] >= marks[0]:
                marks.append(status["epoch"] + 1)
            return len(marks) == 2 and bool(status["published_epoch"] >= marks[1])

        return follows

    # What must hold

    def check(self) -> None:
        """Views and relations are what the feed says, and strategies and exchange agree about every order."""
        sequence, rows = self.views(SPARK)
        self._advance(sequence)
        self._compare(rows, sequence)
        sequence, rows = self.views(EXPRESS)
        self._advance(sequence)
        self._compare(rows, sequence)
        self.verify_orders("--while-running")

    def verify_orders(self, *options: str) -> None:
        """`deltabook algo verify`: raises `EngineError` if an order, a fill or money is lost or there twice."""
        where = ("--dir", f"{STATE}/algo", "--exchange-dir", f"{STATE}/exchange")
        self.cluster.execute("probe", "deltabook", "algo", "verify", *where, *options)

    def views(self, names: Sequence[str]) -> tuple[int, dict[str, Rows]]:
        """All these views at one version, and the last feed message that it covers."""
        decoder = FrameDecoder()
        found: dict[str, Rows] = {}
        sequences: set[int] = set()
        for piece in self.ask("views", list(names)):
            for frame in decoder.feed(base64.b64decode(piece)):
                if frame.header.kind == "snapshot" and frame.header.view not in found:
                    assert frame.rows is not None
                    found[frame.header.view] = _rows(frame.rows)
                    sequences.add(frame.header.feed.get("feed", ("", 0))[1])
        assert set(found) == set(names)
        (sequence,) = sequences
        return sequence, found

    def _advance(self, sequence: int) -> None:
        while self._oracle.messages < sequence:
            begin = self._oracle.messages + 1
            lines = self.ask("feed", begin, min(sequence, begin + _CHUNK - 1))
            messages = [parse_feed_message(line.encode()) for line in lines]
            assert [message.sequence for message in messages] == list(range(begin, begin + len(messages)))
            self._oracle.feed(messages)

    def _compare(self, rows: dict[str, Rows], sequence: int) -> None:
        for name, wanted in self._wanted(list(rows)).items():
            missing, extra = wanted - rows[name], rows[name] - wanted
            assert not missing, f"{name} at message {sequence}: missing {missing}, not expected {extra}"
            assert not extra, f"{name} at message {sequence}: not expected {extra}"

    def _wanted(self, names: Sequence[str]) -> dict[str, Rows]:
        oracle = self._oracle
        books = {"bids": oracle.relation("B"), "asks": oracle.relation("S")}
        wanted: dict[str, Rows] = {}
        for name, orders in books.items():
            wanted[f"all_{name}"] = Counter({_exact((*order, 1)): 1 for order in orders})
        orders_of = {name: [order[:-1] for order in orders] for name, orders in books.items()}
        wanted |= {name: Counter(map(_exact, rows.elements())) for name, rows in expected(orders_of, "sql").items()}
        shipped = [name for name in names if name not in wanted]
        wanted |= oracle.answers([query_path(name) for name in shipped])
        return {name: wanted[name] for name in names}


def _rows(table: Any) -> Rows:
    fields = [field for field in table.schema if field.name != WEIGHT]
    columns = [_scaled(table[field.name].to_pylist(), int((field.metadata or {}).get(b"scale", 0))) for field in fields]
    rows: Rows = Counter()
    for *values, weight in zip(*columns, table[WEIGHT].to_pylist(), strict=True):
        rows[_exact(tuple(values))] += weight
    return +rows


def _scaled(values: list[Any], scale: int) -> list[Any]:
    """Frames hold whole numbers of the column's smallest unit."""
    return [None if value is None else Decimal(value).scaleb(-scale) for value in values] if scale else values


def _exact(row: tuple[Any, ...]) -> tuple[Any, ...]:
    assert not any(isinstance(value, float) for value in row), row
    return tuple(Decimal(value) if isinstance(value, int) else value for value in row)
