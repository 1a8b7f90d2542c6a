"""Where a Spark checkpoint begins and how far it has come, and whether this runtime can use it.

A checkpoint cannot be moved: Spark writes absolute paths into it, a number of shards, and state in the form of its
version; the shards' own state has a format of this release. It need not be moved: what it holds follows from the log.
Beside what Spark keeps there is a mark, which says for what the checkpoint was made. Where that is something else than
what is wanted, a new one is begun at the newest published version, and its first batch fills every view with what the
relations hold there (`runtime.spark.reading`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec

from runtime.epochs import LOCAL_DISK
from runtime.spark.errors import SparkLaneError
from runtime.views.shardruns import RUN_FORMAT

__all__ = [
    "MARK",
    "Beginning",
    "begin",
    "committed_epoch",
    "misfit",
    "newest_commit",
    "passed_epoch",
    "read_beginning",
    "wanted",
]

MARK: Final = "begun.json"
"""The file in the checkpoint; Spark does not look at it."""
_FORMAT: Final = 3
"""1: views that are graphs of operators live in one shard; 2: so do keys that are floats with few digits."""
_OLDEST_STATE: Final = 3
"""Of marks that say nothing about it."""


class Beginning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a checkpoint was made for."""

    shards: int
    """Shards of the view program; also Spark's partitions."""
    location: str
    """Absolute path of the checkpoint."""
    spark: str
    """Spark's version, without its last part: patches read each other's state."""
    epoch: int = 0
    """The version before its first batch; 0: that of a new run."""
    failed: dict[str, str] = {}
    """View that had failed by then → why."""
    format: int = _FORMAT
    """Of this record, of what Spark keeps of a shard (head and pages), and of which keys are in which shard."""
    state: int = _OLDEST_STATE
    """Format of the runs in those pages."""


def wanted(checkpoint: Path, shards: int) -> Beginning:
    """What fits a place and a number of shards, begun at no version yet."""
    spark = ".".join(version("pyspark").split(".")[:2])
    return Beginning(shards, str(checkpoint.resolve()), spark, state=RUN_FORMAT)


def read_beginning(checkpoint: Path) -> Beginning | None:
    """The mark of a checkpoint, None where there is none; raises `SparkLaneError` for one that is not whole."""
    path = checkpoint / MARK
    try:
        return msgspec.json.decode(path.read_bytes(), type=Beginning)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise SparkLaneError(f"expected the mark of a Spark checkpoint at {path}, was: {error}") from None


def passed_epoch(checkpoint: Path) -> int:
    """The epoch up to which Spark reads the log no more but to fill views; 0 where there is no checkpoint.

    One that has been begun and has committed nothing yet is at the version that it was begun at: if that counted for
    nothing, a run directory that is full when it is moved would stay so. Raises `SparkLaneError`.
    """
    begun = read_beginning(checkpoint)
    return max(committed_epoch(checkpoint), begun.epoch if begun else 0)


def misfit(checkpoint: Path, here: Beginning, published: int) -> str | None:
    """Why a checkpoint cannot be gone on with here, None if it can; ``published`` is the newest version."""
    if not checkpoint.is_dir():
        return "there is none"
    try:
        held, passed = read_beginning(checkpoint), passed_epoch(checkpoint)
    except SparkLaneError as error:
        return str(error)
    if held is None:
        return "it does not say what it was made for"
    if held.state != here.state:
        return f"its shard state has format {held.state}, this release reads {here.state}"
    if held.format != here.format:
        return f"it has format {held.format}, not {here.format}"
    if held.location != here.location:
        return f"it was made at {held.location}"
    if held.shards != here.shards:
        return f"it was made with {held.shards} shards, not {here.shards}"
    if held.spark != here.spark:
        return f"it was made by Spark {held.spark}, not {here.spark}"
    if passed > published:
        return f"it is at version {passed}, and {published} is the newest that is published"
    return None


def begin(checkpoint: Path, here: Beginning, epoch: int, failed: Mapping[str, str]) -> Beginning:
    """Begin a new checkpoint behind a version, in the place of whatever is there; durable when this returns.

    The old one goes under another name first: a crash leaves it whole, or none, which is begun anew by the next start.
    """
    begun = msgspec.structs.replace(here, epoch=epoch, failed=dict(failed))
    gone = checkpoint.with_name(f".{checkpoint.name}.gone")
    shutil.rmtree(gone, ignore_errors=True)
    if checkpoint.exists():
        checkpoint.rename(gone)
        LOCAL_DISK.sync_directory(checkpoint.parent)
        shutil.rmtree(gone, ignore_errors=True)
    LOCAL_DISK.make_directory(checkpoint)
    hidden = checkpoint / f".{MARK}"
    LOCAL_DISK.write(hidden, [msgspec.json.encode(begun)])
    LOCAL_DISK.rename(hidden, checkpoint / MARK)
    LOCAL_DISK.sync_directory(checkpoint)
    return begun


class _Offset(msgspec.Struct):
    epoch: int


def committed_epoch(checkpoint: Path) -> int:
    """The last epoch of the newest batch that Spark has committed, 0 for none; no batch up to it is run again.

    Spark does not sync what it writes: so that the answer holds after a crash of the machine as well, every file of the
    checkpoint is synced first. Raises `SparkLaneError` for a record that is not whole.
    """
    epoch = newest_commit(checkpoint)
    if epoch:
        _sync(checkpoint)
    return epoch


def newest_commit(checkpoint: Path) -> int:
    """The same for as long as the machine does not crash: nothing is synced. Raises `SparkLaneError` likewise."""
    commits = checkpoint / "commits"
    batches = [int(path.name) for path in commits.glob("[0-9]*") if path.name.isdigit()] if commits.is_dir() else []
    if not batches:
        return 0
    path = checkpoint / "offsets" / str(max(batches))
    try:
        lines = path.read_bytes().splitlines()
        epoch = msgspec.json.decode(lines[2], type=_Offset).epoch
    except (OSError, IndexError, msgspec.DecodeError) as error:
        raise SparkLaneError(f"expected the offset of a batch in three lines at {path}, was: {error}") from None
    return epoch


def _sync(directory: Path) -> None:
    """Sync all files and directories below; one that Spark removes meanwhile is of no interest."""
    for place, _, names in os.walk(directory):
        for path in (place, *(os.path.join(place, name) for name in names)):  # noqa: PTH118 (thousands of them)
            try:
                descriptor = os.open(path, os.O_RDONLY)
            except FileNotFoundError:
                continue
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
