"""A journal's directory: the lock, the inputs, and the lines that follow from them."""

from __future__ import annotations

import fcntl
import os
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Final

from exchange_server.errors import DirectoryInUseError, ExchangeConfigurationError, JournalError
from exchange_server.inputs import JOURNAL_VERSION, MarketRules
from exchange_server.journal.inputs_log import FsyncPolicy, InputsLog, JournalHead
from exchange_server.journal.numbered_file import LineFile

__all__ = ["Journal"]

_OPEN_STREAMS: Final = 64


class Journal:
    """Holds a directory for as long as it is open.

    ``lock`` keeps a second exchange out; ``inputs`` is the truth; ``feed.lines`` and ``private/BROKER.lines`` follow
    from it, are truncated when the journal is opened and written again while it is recovered. So no moment of a crash
    can leave them behind or ahead of the inputs. Raises `DirectoryInUseError`, `JournalError`, and
    `ExchangeConfigurationError` if the journal was begun under other rules.
    """

    def __init__(
        self, directory: Path, rules: MarketRules, new_session: Callable[[], str], fsync: FsyncPolicy = "interval"
    ) -> None:
        self._directory = directory
        try:
            (directory / "private").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise JournalError(f"expected a directory at {directory}, was {error.strerror}") from error
        self._lock = self._take_lock()
        path = directory / "inputs"
        if not path.exists():
            InputsLog.create(path, JournalHead(JOURNAL_VERSION, _session(new_session()), rules))
        self.inputs = InputsLog(path, fsync)
        if self.inputs.head.rules != rules:
            raise ExchangeConfigurationError(
                f"expected the rules that the journal in {directory} began with ({_words(self.inputs.head.rules)}), "
                f"was {_words(rules)}; another directory begins a new session"
            )
        self.session = self.inputs.head.session
        self.feed = LineFile(directory / "feed.lines")
        self._streams: dict[int, LineFile] = {}
        self._recent: OrderedDict[int, None] = OrderedDict()

    def _take_lock(self) -> int:
        descriptor = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise DirectoryInUseError(
                f"expected {self._directory} to be free, was in use by another exchange (process {owner or 'unknown'})"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
        return descriptor

    def stream(self, broker_id: int) -> LineFile:
        """A broker's private stream; only so many of them are kept open at once."""
        stream = self._streams.get(broker_id)
        if stream is None:
            stream = self._streams[broker_id] = LineFile(self._directory / "private" / f"{broker_id}.lines")
        self._recent[broker_id] = None
        self._recent.move_to_end(broker_id)
        if len(self._recent) > _OPEN_STREAMS:
            oldest, _ = self._recent.popitem(last=False)
            self._streams[oldest].release()
        return stream

    @property
    def streams(self) -> int:
        """Brokers that have a private stream."""
        return len(self._streams)

    def has_stream(self, broker_id: int) -> bool:
        """Whether a broker has a private stream."""
        return broker_id in self._streams

    def write_output(self, feed: list[str], private: dict[int, list[str]]) -> tuple[bytes, dict[int, bytes]]:
        """Encode and keep what an applied batch gave; returns the bytes for whoever listens."""
        feed_bytes = "".join(feed).encode("ascii")
        if feed:
            self.feed.append(feed_bytes, len(feed))
        private_bytes = {}
        for broker_id, lines in private.items():
            data = private_bytes[broker_id] = "".join(lines).encode("ascii", "replace")
            self.stream(broker_id).append(data, len(lines))
        return feed_bytes, private_bytes

    def close(self) -> None:
        """Close everything and let the next one in."""
        self.inputs.close()
        self.feed.close()
        for stream in self._streams.values():
            stream.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _session(name: str) -> str:
    if not (name.isascii() and name.isalnum() and len(name) <= 10):
        raise ExchangeConfigurationError(f"expected a session of at most 10 letters and digits, was {name!r}")
    return name


def _words(rules: MarketRules) -> str:
    replay = f", {rules.replay_symbol} replayed {rules.replay_mode}" if rules.replay_symbol else ""
    return ", ".join(instrument.symbol for instrument in rules.instruments) + replay
