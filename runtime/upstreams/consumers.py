"""Register of a log's consumers and their progress: an epoch is retired only after all consumers have passed it.

```
consumers/18c3f2a9.json   the consumer whose own log has this identity: the newest epoch that it has committed
```

A consumer registers before it looks for the first epoch to read, so that every epoch that exists at that moment is
retained.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec

from runtime.epochs import LOCAL_DISK, Disk
from runtime.upstreams.errors import DamagedConsumerError, UpstreamError

__all__ = ["CONSUMERS", "Consumer", "Consumers"]

CONSUMERS: Final = "consumers"
"""Name of the register's directory, in the upstream's run directory."""
_SUFFIX: Final = ".json"
_MOST: Final = 100
"""Greatest number of consumers of a run directory."""


class Consumer(msgspec.Struct, frozen=True):
    """Runtime that reads the log of an upstream."""

    identity: str
    """Identity of the consumer's own log, by which it is registered."""
    directory: str
    """Run directory of the consumer."""
    host: str
    """Host on which the consumer ran last."""
    name: str
    """Name that the consumer uses for this upstream."""
    epoch: int = -1
    """Newest epoch that the consumer has committed, -1 for none; it never reads this or an earlier epoch again."""
    written_ns: int = 0
    """Time of writing, in nanoseconds since the UTC epoch."""
    checksum: int | None = None
    """CRC-32 of the other fields as JSON; None outside of a file, and in files of earlier releases."""

    def sealed(self) -> Consumer:
        """Return the consumer with its checksum."""
        plain = msgspec.structs.replace(self, checksum=None)
        return msgspec.structs.replace(self, checksum=crc32(msgspec.json.encode(plain)))


class Consumers:
    """Register of the consumers of one run directory. A consumer's file has one writer and any number of readers."""

    def __init__(self, directory: Path, disk: Disk = LOCAL_DISK) -> None:
        """Use the register in ``directory``, the run directory of the upstream."""
        self._directory = directory / CONSUMERS
        self._disk = disk

    def put(self, consumer: Consumer) -> None:
        """Store a consumer's progress durably; raise `UpstreamError` beyond the limit of consumers."""
        path = self._path(consumer.identity)
        self._disk.make_directory(self._directory)
        if not self._disk.exists(path) and len(self._files()) >= _MOST:
            raise UpstreamError(f"expected at most {_MOST} consumers in {self._directory}, was one more")
        hidden = path.with_name(f".{path.name}")
        self._disk.write(hidden, [msgspec.json.encode(consumer.sealed())])
        self._disk.rename(hidden, path)
        self._disk.sync_directory(self._directory)

    def list(self) -> list[Consumer]:
        """Return all consumers, by identity; raise `UpstreamError` for a damaged file."""
        return [consumer for path in self._files() if (consumer := self._read(path)) is not None]

    def readable(self) -> tuple[Sequence[Consumer], int]:
        """Return the consumers whose files can be read, by identity, and the number of damaged files."""
        consumers: list[Consumer] = []
        damaged = 0
        for path in self._files():
            try:
                consumer = self._read(path)
            except DamagedConsumerError:
                damaged += 1
            else:
                consumers += [] if consumer is None else [consumer]
        return consumers, damaged

    def forget(self, identity: str) -> bool:
        """Remove a consumer; return False if there was none.

        If epochs that the consumer needs are retired afterwards, it is refused when it registers again.
        """
        path = self._path(identity)
        if not self._disk.exists(path):
            return False
        self._disk.unlink(path)
        self._disk.sync_directory(self._directory)
        return True

    def passed(self, newest: int) -> int:
        """Return the newest epoch that all consumers have committed; the log's ``newest`` if there are no consumers."""
        return min([newest, *[consumer.epoch for consumer in self.list()]])

    def _files(self) -> Sequence[Path]:
        names = [name for name in self._disk.names(self._directory) if name[0] != "." and name.endswith(_SUFFIX)]
        return [self._directory / name for name in names]

    def _path(self, identity: str) -> Path:
        return self._directory / f"{identity}{_SUFFIX}"

    def _read(self, path: Path) -> Consumer | None:
        try:
            consumer = msgspec.json.decode(bytes(self._disk.read(path)), type=Consumer)
            if consumer.checksum is not None and consumer != consumer.sealed():
                raise ValueError("another checksum")
        except FileNotFoundError:  # removed meanwhile
            return None
        except ValueError as error:
            raise DamagedConsumerError(
                f"expected a consumer at {path}, was: {error}; nothing is retired until the consumer has written it "
                f"again, or `deltabook upstream forget` has removed it"
            ) from None
        return msgspec.structs.replace(consumer, checksum=None)
