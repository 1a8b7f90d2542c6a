"""Makes a run directory whose views' state, of Spark and of the express lane, later releases cannot read.

    PYTHONPATH=. .venv/bin/python tests/upgrade/make_states.py FORMAT

writes ``states-FORMAT.tar.zst`` beside this file, FORMAT being that of a shard's runs. It is run before the format
changes, with the code that writes the old one. A backup leaves out Spark's checkpoint, so this is a plain archive of
the two directories ``exchange`` and ``runtime``, in which both lanes keep a view of every kind over a short market of
agents. Both processes were killed, the runtime first: the feed has messages that it has not read.
"""

from __future__ import annotations

import io
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from backports import zstd

from tests.integration._processes import Running, await_end_of_java, exchange, feed_position

__all__ = ["EARLY", "HERE", "VIEWS", "unpack", "write_views"]

HERE: Final = Path(__file__).parent
VIEWS: Final = {
    "levels": """
        SELECT symbol, price, SUM(volume) AS volume, COUNT(*) AS orders FROM bids
        GROUP BY symbol, price HAVING SUM(volume) > 50
        UNION ALL SELECT symbol, price, SUM(volume) AS volume, COUNT(*) AS orders FROM asks GROUP BY symbol, price""",
    "tape": "SELECT match_id, symbol, side, broker_id FROM trades WHERE volume > 2",
    "crossed": """
        SELECT b.broker_id, SUM(a.volume - b.volume) AS axfinder FROM bids b, asks a
        WHERE b.broker_id = a.broker_id AND a.price - b.price > 4 GROUP BY b.broker_id""",
    "pairs": """
        SELECT x.symbol, SUM(x.volume * x.price - y.volume * y.price) AS spread FROM bids x, bids y
        WHERE x.symbol = y.symbol AND x.t > y.t GROUP BY x.symbol""",
    "best_quarter": """
        SELECT SUM(b1.price * b1.volume) AS vwap FROM bids b1
        WHERE 0.25 * (SELECT SUM(b3.volume) FROM bids b3)
            > (SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b1.price)""",
    "best": "SELECT symbol, MAX(price) AS price, COUNT(*) AS orders FROM bids GROUP BY symbol",
    "lonely": """
        SELECT b.symbol, b.id, b.price FROM bids b
        WHERE NOT EXISTS (SELECT 1 FROM asks a WHERE a.broker_id = b.broker_id AND a.symbol = b.symbol)""",
    "middle": "SELECT symbol, QUANTILE_DISC(price, 0.5) AS price FROM asks GROUP BY symbol",
}
"""Views of the Spark lane, one of each kind at least: sums, joins, thresholds, operators, and DuckDB's."""
EARLY: Final = "early_"
"""Put before their names, the same views of the express lane."""
_MESSAGES: Final = 250
_REST: Final = 60
_OF_PROCESSES: Final = frozenset({"beat", "claim", "lock"})


def write_views(directory: Path) -> tuple[list[Path], list[Path]]:
    """Write the files of the views; those of the Spark lane, and those of the express lane."""
    directory.mkdir()
    lanes: tuple[list[Path], list[Path]] = [], []
    for place, prefix in enumerate(("", EARLY)):
        for name, sql in VIEWS.items():
            path = directory / f"{prefix}{name}.sql"
            path.write_text(f"{sql};\n")
            lanes[place].append(path)
    return lanes


def unpack(archive: Path, directory: Path) -> None:
    """Make the directories of an archive below an empty one."""
    with tarfile.open(fileobj=io.BytesIO(zstd.decompress(archive.read_bytes()))) as files:
        files.extractall(directory, filter="data")


def main() -> None:
    """Write the archive."""
    with tempfile.TemporaryDirectory() as place:
        run = Path(place)
        spark, express = (",".join(map(str, paths)) for paths in write_views(run / "views"))
        flow = ["--instruments", "ACME,BETA", "--seed", "5", "--rate", "20", "--snapshot-inputs", "200"]
        with exchange(run / "exchange", *flow) as market:
            port = market.ready().ports["text"]
            limits = ["--snapshot-epochs", "8", "--retain-epochs", "0", "--max-epochs-per-batch", "3"]
            pace = ["--epoch-messages", "20", "--epoch-ms", "2000", "--status-interval", "0.1"]
            where = ["--feed", f"127.0.0.1:{port}", "--dir", str(run / "runtime"), "--views", spark]
            with Running("runtime", *where, "--express", express, *limits, *pace) as engine:
                engine.wait_for("feed_sequence", _MESSAGES)
                engine.wait_for("published_epoch", 12)
                engine.kill()
            await_end_of_java(run / "runtime")
            market.wait_for("sequence", feed_position(port) + _REST)
            market.kill()
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as files:
            for name in ("exchange", "runtime"):
                files.add(run / name, name, filter=_kept)
        archive = HERE / f"states-{int(sys.argv[1])}.tar.zst"
        archive.write_bytes(zstd.compress(data.getvalue(), level=19))
        sys.stdout.write(f"{archive.name}: {archive.stat().st_size} bytes\n")


def _kept(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Return an entry as it is archived; None for Spark's logs and scratch files, and for what belongs to a process."""
    name = Path(entry.name)
    if name.parts[:2] == ("runtime", "spark") or name.name in _OF_PROCESSES or not (entry.isfile() or entry.isdir()):
        return None
    entry.uname = entry.gname = ""
    entry.uid = entry.gid = 0
    return entry


if __name__ == "__main__":
    main()
