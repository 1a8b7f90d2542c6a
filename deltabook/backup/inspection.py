"""Reports on the contents of a run directory or a backup: they change nothing, and can be made while processes run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from algo_engine.desk.journal import JOURNAL, read_journal
from algo_engine.errors import JournalDamaged
from deltabook.backup.backup import is_archive, read_manifest
from deltabook.backup.manifest import MANIFEST, Kind, Part, find_parts
from exchange_server.errors import JournalError
from exchange_server.journal.inputs_log import JOURNAL_VERSION, JournalReader
from exchange_server.journal.snapshots import JournalSnapshots
from runtime.compiler import decode_program
from runtime.epochs import EpochLogError, EpochLogReader, ResultLog, SnapshotDirectory
from runtime.plan import View
from runtime.spark.beginning import misfit, passed_epoch, read_beginning
from runtime.spark.config import SparkLaneError

__all__ = ["PartReport", "inspect"]

_LOCKS: Final = Path("/proc/locks")

Facts = dict[str, str | int]


class PartReport(msgspec.Struct, frozen=True):
    """Report on a run directory, which may be in a backup."""

    kind: Kind
    """Kind of process that writes the directory."""
    path: str
    """Path of the directory; relative to the backup, if it is in one."""
    facts: Facts
    """Facts about the directory, as names and values."""


def inspect(path: Path) -> list[PartReport]:
    """Return reports on a run directory, on the run directories directly below a directory, or on those in a backup;
    raise `BackupError` if ``path`` is none of these.

    The report on a backup has what its manifest says; `restore` compares the manifest with the bytes.
    """
    if is_archive(path) or (path / MANIFEST).is_file():
        manifest = read_manifest(path)
        made: Facts = {"made by version": manifest.version, "made at (ns)": manifest.made_ns, "bytes": manifest.size}
        return [PartReport(part.kind, part.path or ".", {**part.position, **made}) for part in manifest.parts]
    return [_report(part) for part in find_parts(path)]


def _report(part: Part) -> PartReport:
    facts_of = {"algo": _algo, "exchange": _exchange, "runtime": _runtime}[part.kind]
    try:
        facts = facts_of(part.directory)
    except (EpochLogError, JournalDamaged, JournalError, ValueError) as error:
        facts = {"damaged": str(error)}
    size = _bytes(part.directory)
    return PartReport(part.kind, str(part.directory), {**facts, "bytes": size})


def _algo(directory: Path) -> Facts:
    facts: Facts = {}
    for journal in sorted(directory.glob(f"*/{JOURNAL}")):
        records, _ = read_journal(journal)
        facts[journal.parent.name] = f"{len(records)} records"
        if user := _user(journal.with_suffix(".lock")):
            facts["in use by"] = user
    return facts


def _exchange(directory: Path) -> Facts:
    reader = JournalReader(directory / "inputs")
    first = last = reader.head.first - 1
    for number, batch in reader.batches(first):
        last = number + len(batch) - 1
    snapshots = JournalSnapshots(directory / "snapshots").inputs()
    symbols = ", ".join(instrument.symbol for instrument in reader.head.rules.instruments)
    return {
        "in use by": _user(directory / "lock") or "nobody",
        "format": JOURNAL_VERSION,
        "session": reader.head.session,
        "symbols": symbols,
        "requests": f"{first + 1} to {last}",
        "snapshots": ", ".join(map(str, snapshots)) or "none",
    }


def _runtime(directory: Path) -> Facts:
    log = EpochLogReader(directory / "epochs")
    newest = log.latest()
    user = _user(directory / "lock") or "nobody"
    if newest < 0:
        return {"in use by": user, "epochs": "none"}
    footer = log.read(newest).footer
    program = decode_program(log.control_before(newest))
    results = directory / "results"
    version = ResultLog.newest_in(results) if results.is_dir() else 0
    return {
        "in use by": user,
        "epochs": f"{log.first()} to {newest}",
        **{f"origin {name}": f"{cut.session} {cut.sequence}" for name, cut in sorted(footer.cuts.items())},
        "term": footer.attributes.get("term", "0"),
        "program format": program.format_version,
        "views": ", ".join(f"{view.name} ({_lanes(view)})" for view in program.views) or "none",
        "version": version,
        "relation snapshots": ", ".join(map(str, SnapshotDirectory(directory / "snapshots").epochs())) or "none",
        "spark checkpoint": _checkpoint(directory / "checkpoint", version),
    }


def _lanes(view: View) -> str:
    return f"{view.lane} and spark" if view.on_spark else view.lane


def _checkpoint(checkpoint: Path, published: int) -> str:
    if not checkpoint.is_dir():
        return "none"
    try:
        begun, passed = read_beginning(checkpoint), passed_epoch(checkpoint)
    except SparkLaneError as error:
        return f"will be rebuilt: {error}"
    if begun is None:
        return "will be rebuilt: it has no mark of the setup for which it was made"
    here = msgspec.structs.replace(begun, location=str(checkpoint.resolve()))
    if (why_not := misfit(checkpoint, here, published)) is not None:
        return f"will be rebuilt: {why_not}"
    return f"version {passed}, {begun.shards} shards, Spark {begun.spark}"


def _user(lock: Path) -> str:
    """Return the process on this machine that holds a lock, from the kernel's list of locks; empty if none does."""
    try:
        number = lock.stat().st_ino
        lines: Iterable[str] = _LOCKS.read_text("ascii").splitlines()
    except OSError:
        return ""
    holders = [fields for line in lines if (fields := line.split())[-3].endswith(f":{number}") and "->" not in fields]
    return f"process {holders[0][-4]}" if holders else ""


def _bytes(directory: Path) -> int:
    total = 0
    for place, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118 (thousands of them)
            except FileNotFoundError:
                continue
    return total
