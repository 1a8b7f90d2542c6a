"""What a Spark checkpoint says: how far the streaming query has come, for good."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from runtime.spark.errors import SparkLaneError

__all__ = ["committed_epoch", "newest_commit"]


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
