"""Makes the run directories that later versions have to go on with, and says what they hold.

    PYTHONPATH=. .venv/bin/python tests/upgrade/make.py

writes ``runs-VERSION.tar.zst`` and ``runs-VERSION.json`` beside this file. To be run once for each release, before it:
what earlier releases have written stays as it is. A short market of agents, both lanes, and strategies that trade in it
are begun, killed in the midst, and copied.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from deltabook import __version__
from deltabook.backup import back_up, restore
from deltabook.cli._exchange_files import hash_of
from queries import query_path
from tests.integration._processes import Running, feed, feed_position
from tests.integration.algo_process import FakeResults, private_stream
from tests.integration.test_algo_recovery import algo, position

__all__ = ["EXPRESS", "HERE", "SPARK", "Held"]

HERE: Final = Path(__file__).parent
EXPRESS: Final = ("best_quote",)
SPARK: Final = ("book_depth", "vwap_book", "broker_volume")
_MESSAGES: Final = 400


class Held(msgspec.Struct, frozen=True):
    """What is to be found in the run directories of a version."""

    requests: int
    """Of the exchange."""
    state_hash: str
    """Of its market."""
    sequence: int
    """Of its feed."""
    epoch: int
    """Of the runtime."""
    covered: int
    """The last message of the feed in it."""
    position_lots: int
    """Of the strategy, by what the exchange told it."""
    fills: int
    """Of the strategy."""


def main() -> None:
    """Write both files."""
    with tempfile.TemporaryDirectory() as place:
        run = Path(place)
        kept = ["--dir", str(run / "exchange"), "--itch-port", "0"]
        market = Running("exchange", *kept, "--instruments", "ACME,BETA", "--status-interval", "0.1", "--seed", "5",
                         "--rate", "8", "--snapshot-inputs", "400")  # fmt: skip
        with market, FakeResults() as results:
            port = market.ready().ports["text"]
            views = [",".join(str(query_path(name)) for name in names) for names in (SPARK, EXPRESS)]
            where = ["--feed", f"127.0.0.1:{port}", "--dir", str(run / "runtime")]
            limits = ["--snapshot-epochs", "10", "--retain-epochs", "0", "--snapshot-results", "6"]
            engine = Running("runtime", *where, "--views", views[0], "--express", views[1], *limits,
                             "--max-epochs-per-batch", "3", "--epoch-messages", "20", "--epoch-ms", "500",
                             "--status-interval", "0.1")  # fmt: skip
            with algo(run, results, port) as desk:
                desk.wait_for("orders_sent", 30)  # killed, with orders in the market
            with engine:
                engine.wait_for("feed_sequence", _MESSAGES)
                engine.wait_for("published_epoch", 15)
                engine.kill()
            told = private_stream(port, 9001)
            sequence = feed_position(port)
            assert len(feed(port, sequence)) == sequence
            market.kill()
        archive = HERE / f"runs-{__version__}.tar.zst"
        archive.unlink(missing_ok=True)
        made = back_up(run, archive)
        restore(archive, run / "back")
        found = {part.kind: part.position for part in made.manifest.parts}
        hashed = hash_of(run / "back" / "exchange", None, None, "text")
        held = Held(
            requests=hashed.inputs,
            state_hash=hashed.hash,
            sequence=sequence,
            epoch=int(found["runtime"]["epoch"]),
            covered=int(str(found["runtime"]["feed"]).split()[1]),
            position_lots=position(told),
            fills=sum(message.action in {"E", "F"} for message in told),
        )
        (HERE / f"runs-{__version__}.json").write_bytes(msgspec.json.format(msgspec.json.encode(held)) + b"\n")
        sys.stdout.write(f"{archive}: {made.stored_bytes} bytes, {held}\n")


if __name__ == "__main__":
    main()
