"""Beginning and progress of a Spark checkpoint, and the check whether this runtime can use it.

A checkpoint cannot be moved: it has absolute paths, a number of shards, and state in a format of Spark's version; the
shards' own state has a format of this release. It need not be moved, because its content follows from the log. A file
beside Spark's own, the *mark*, records the setup for which the checkpoint was made. If this setup differs from the
present one, a new checkpoint is begun at the newest published version, and its first batch fills every view with the
rows that the view's relations have at that version (`runtime.spark.planning`).
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
from runtime.spark.config import SparkLaneError
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
"""Name of the mark's file in the checkpoint; Spark ignores it."""
_FORMAT: Final = 3
"""Format of the mark. In format 1, views that are graphs of operators are in one shard. In format 2, all keys that are
floats with few digits are assigned to one shard. Format 3 is the current one."""
_OLDEST_STATE: Final = 3
"""State format of marks that do not name one."""


class Beginning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Setup for which a checkpoint was made."""

    shards: int
    """Number of shards of the view program, which is also the number of Spark's partitions."""
    location: str
    """Absolute path of the checkpoint."""
    spark: str
    """Spark's version without its last part, because patch releases read each other's state."""
    epoch: int = 0
    """Version before the checkpoint's first batch; 0 for the checkpoint of a new run."""
    failed: dict[str, str] = {}
    """View → reason of its failure before ``epoch``."""
    format: int = _FORMAT
    """Format of this record, of a shard's head and pages, and of the assignment of keys to shards."""
    state: int = _OLDEST_STATE
    """Format of the runs in the pages."""


def wanted(checkpoint: Path, shards: int) -> Beginning:
    """Return the setup for a path and a number of shards, without a version."""
    spark = ".".join(version("pyspark").split(".")[:2])
    return Beginning(shards, str(checkpoint.resolve()), spark, state=RUN_FORMAT)


def read_beginning(checkpoint: Path) -> Beginning | None:
    """Return the mark of a checkpoint, None if there is none; raise `SparkLaneError` for a damaged mark."""
    path = checkpoint / MARK
    try:
        return msgspec.json.decode(path.read_bytes(), type=Beginning)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SparkLaneError(f"expected the mark of a Spark checkpoint at {path}, was: {error}") from None


def passed_epoch(checkpoint: Path) -> int:
    """Return the epoch up to which Spark reads the log only to fill views; 0 without a checkpoint.

    A checkpoint without a commit is at the version at which it was begun. That version counts, because otherwise
    nothing could be retired in a run directory that was full when it was moved. Raises `SparkLaneError` for a damaged
    record.
    """
    begun = read_beginning(checkpoint)
    return max(committed_epoch(checkpoint), begun.epoch if begun else 0)


def misfit(checkpoint: Path, here: Beginning, published: int) -> str | None:
    """Return the reason why a checkpoint cannot be continued here, None if it can.

    ``published`` is the newest published version.
    """
    if not checkpoint.is_dir():
        return "there is none"
    try:
        mark, passed = read_beginning(checkpoint), passed_epoch(checkpoint)
    except SparkLaneError as error:
        return str(error)
    if mark is None:
        return "it has no mark of the setup for which it was made"
    if mark.state != here.state:
        return f"its shard state has format {mark.state}, this release reads {here.state}"
    if mark.format != here.format:
        return f"it has format {mark.format}, not {here.format}"
    if mark.location != here.location:
        return f"it was made at {mark.location}"
    if mark.shards != here.shards:
        return f"it was made with {mark.shards} shards, not {here.shards}"
    if mark.spark != here.spark:
        return f"it was made by Spark {mark.spark}, not {here.spark}"
    if passed > published:
        return f"it is at version {passed}, and {published} is the newest that is published"
    return None


def begin(checkpoint: Path, here: Beginning, epoch: int, failed: Mapping[str, str]) -> Beginning:
    """Begin a new checkpoint after a version, and replace an existing one; durable when this returns.

    The existing checkpoint is renamed first. So after a crash there is a complete checkpoint or none; if there is none,
    the next start begins a new one.
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
    """Return the last epoch of the newest batch that Spark has committed, 0 for none; no batch up to it is repeated.

    Spark does not sync its files: every file of the checkpoint is synced first, so that the result is valid even after
    a crash of the machine. Raises `SparkLaneError` for a damaged record.
    """
    epoch = newest_commit(checkpoint)
    if epoch:
        _sync(checkpoint)
    return epoch


def newest_commit(checkpoint: Path) -> int:
    """Return the last epoch of the newest committed batch without syncing, which is valid until the machine crashes.

    Raises `SparkLaneError` for a damaged record.
    """
    commits = checkpoint / "commits"
    batches = [int(path.name) for path in commits.glob("[0-9]*") if path.name.isdigit()] if commits.is_dir() else []
    if not batches:
        return 0
    path = checkpoint / "offsets" / str(max(batches))
    try:
        lines = path.read_bytes().splitlines()
        epoch = msgspec.json.decode(lines[2], type=_Offset).epoch
    except (OSError, IndexError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SparkLaneError(f"expected the offset of a batch in three lines at {path}, was: {error}") from None
    return epoch


def _sync(directory: Path) -> None:
    """Sync all files and directories below a directory; skip files that Spark removes meanwhile."""
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
