"""Run directory of a live runtime: its lock, its first epochs, and the check that the directory fits the configuration.

A directory whose first start fails is left as it was.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from deltabook.wire.directories import CLAIM_LIMIT_BYTES, Claim, claimed_by, refuse_special_files, this_process
from runtime.compiler import MARKET_RELATIONS, NamedSelect, StreamSelect
from runtime.engine.express import Update
from runtime.engine.ingest import CommitterThread, EpochWriter
from runtime.epochs import LOCAL_DISK, DirectoryClaim, Disk, Footer
from runtime.native.cache import default_kernels
from runtime.plan import Lane, Program, decode_program, encode_program, lane_program, with_record
from runtime.service.catalogue import begin_catalogue
from runtime.service.config import LiveConfig
from runtime.service.errors import DirectoryInUseError, ServiceError
from runtime.service.inputs.event_time import MARKET_INPUTS
from runtime.service.inputs.inputs import check_inputs
from runtime.service.inputs.protocols import begin_feed
from runtime.service.inputs.upstreams import missing_of
from runtime.service.lanes.express import ExpressLane
from runtime.service.lanes.spark import SparkHost
from runtime.spark.config import SparkLaneError
from runtime.spark.requirements import missing_requirement

__all__ = ["DirectoryLock", "RunDirectory", "left_as_found"]


class DirectoryLock:
    """Exclusive lock of a run directory; the lock's file names the process that holds the lock.

    The operating system releases the lock when the process ends. On a file system without locks nothing is locked. Then
    a second process is refused by the lock of the state database, or else the first process detects that the second
    process has claimed the directory. Not thread-safe.
    """

    def __init__(self, directory: Path, holder: Claim) -> None:
        """Create the directory if it is missing; raises `DirectoryInUseError` with the process that holds it.

        Raises `NotAFileError` for a directory with a pipe or a device.
        """
        refuse_special_files(directory)
        LOCAL_DISK.make_directory(directory)
        descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        self._file = os.fdopen(descriptor, "r+b", buffering=0)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            held_by = claimed_by(os.pread(descriptor, CLAIM_LIMIT_BYTES, 0))
            self._file.close()
            raise DirectoryInUseError(
                f"expected {directory} to be free, was in use by another runtime ({held_by})"
            ) from None
        except OSError:
            return
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, holder.encoded(), 0)

    def release(self) -> None:
        """Release the lock; further calls do nothing."""
        self._file.close()


@contextmanager
def left_as_found(directory: Path) -> Iterator[None]:
    """Restore a directory that was missing or empty, if the body of the ``with`` statement raises.

    A start may be refused, for example because a view does not compile. Files of such a start would make the next start
    resume from a run that never began. A directory that was not empty, or that another process uses, is not touched.
    """
    above = next((parent for parent in (directory, *directory.parents) if parent.exists()), None)
    was_empty = not directory.exists() or (directory.is_dir() and not any(directory.iterdir()))
    try:
        yield
    except DirectoryInUseError:
        raise
    except BaseException:
        if was_empty and directory.is_dir():
            _clear(directory, above)
        raise


def _clear(directory: Path, above: Path | None) -> None:
    """Remove a directory with its contents, and the empty directories between it and ``above``."""
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    for made in (directory, *directory.parents):
        if made == above or any(made.iterdir()):
            return
        made.rmdir()


class RunDirectory:
    """Run directory that is locked and open. A new directory has its first epochs; an existing directory is resumed."""

    def __init__(
        self,
        config: LiveConfig,
        selects: Sequence[NamedSelect],
        streams: Sequence[StreamSelect] = (),
        *,
        disk: Disk,
        now_ns: Callable[[], int],
        on_epoch: Callable[[Footer], None],
        on_update: Callable[[Update], None],
    ) -> None:
        """Lock and open the directory.

        ``on_epoch`` is called with every durable epoch, on the committer; ``on_update`` with every version of the
        express lane, on a worker.

        Raises `ServiceError` for a directory that is in use or does not fit the configuration, and `SparkLaneError` if
        Spark is to run and is not installed.
        """
        self._config = config
        directory = config.directory
        holder = this_process(run=config.run_id, since_ns=now_ns())
        with ExitStack() as undone:
            self._lock = DirectoryLock(directory, holder)
            undone.callback(self._lock.release)
            self.claim = DirectoryClaim(directory, holder, disk)
            """Claim by which this process detects that another process has taken the directory."""
            self.writer = EpochWriter(
                directory, now_ns, on_epoch, disk=disk, claim=self.claim, committer=CommitterThread()
            )
            """Writer of the directory's epochs."""
            undone.callback(self.writer.close)
            self.express = ExpressLane(self.writer, directory, on_update, default_kernels())
            """Express lane of the directory."""
            check_inputs(config, self.writer)
            if config.feed is not None:
                begin_feed(self.writer, config.protocol, str(directory))
            self.program = begin_catalogue(
                self.writer,
                selects,
                MARKET_RELATIONS,
                mode=config.mode,
                most_views=config.most_views,
                where=str(directory),
                first=self.express.first,
                streams=streams,
                inputs=MARKET_INPUTS,
                missing=missing_of(config.upstreams),
                placed=lambda program: with_record(program, on_spark=self._is_spark_wanted(program)),
            )
            """Program with which the directory was begun."""
            self._check_streams()
            self.runs_spark = self._is_spark_wanted(decode_program(self.writer.control))
            """True if Spark is to run."""
            if self.runs_spark and (missing := missing_requirement(os.environ)):
                raise SparkLaneError(f"{missing}; --no-spark with --express alone runs without Spark")
            self._place_express_views()
            undone.pop_all()

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """Lanes that run."""
        return ("spark", "express") if self.runs_spark else ("express",)

    def close(self) -> None:
        """Close the writer and release the lock."""
        with ExitStack() as parts:  # both are called, even if the first one raises
            parts.callback(self._lock.release)
            parts.callback(self.writer.close)

    def _check_streams(self) -> None:
        """Raise `ServiceError` for a stream that reads a relation which the upstreams do not have.

        Such a stream was created when there were no upstreams; it would wait for rows for ever.
        """
        missing = missing_of(self._config.upstreams)
        for stream in decode_program(self.writer.control).streams:
            for name in missing.keys() & set(stream.reads):
                raise ServiceError(f"stream {stream.name}: {missing[name]}")

    def _place_express_views(self) -> None:
        """Seal a program in which Spark maintains all express views, or none, if the newest program differs.

        Programs of earlier releases have these views on the express lane only.
        """
        program = decode_program(self.writer.control)
        placed = with_record(program, on_spark=self.runs_spark)
        if placed != program:
            recovered = self.writer.recovered
            self.writer.seal(recovered.cuts if recovered else {}, control=encode_program(placed))

    def _is_spark_wanted(self, program: Program) -> bool:
        """Return True if Spark is to run, by the configuration or else by the views and the directory.

        Raises `ServiceError` if views need Spark and Spark is switched off, or if epochs that Spark needs are retired.
        """
        wanted, directory = self._config.runs_spark, self._config.directory
        alone = [view.name for view in program.views if view.lane == "spark"]
        if wanted is False and alone:
            raise ServiceError(f"expected views of the express lane for --no-spark, was {alone[0]!r} among them")
        has_run = SparkHost.has_run(directory)
        runs = bool(lane_program(program, "spark").views) or has_run if wanted is None else wanted
        first = self.writer.log.first()
        if runs and not has_run and first > 0:
            raise ServiceError(f"expected a new --dir for Spark, as the first epochs of {directory} are retired")
        if runs and has_run and first > (published := SparkHost.published(directory)) + 1:
            raise ServiceError(
                f"expected epoch {published + 1} in {directory}, with which Spark continues, was a log that begins "
                f"with epoch {first}: choose --no-spark, or a new --dir"
            )
        return runs
