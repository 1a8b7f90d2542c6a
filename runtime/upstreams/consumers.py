"""Who reads a run directory's log as an upstream, and how far: what is retired there waits for them.

```
consumers/18c3f2a9.json   the consumer whose own log has this identity: up to which epoch it has committed
```

A consumer says so before it looks for the first epoch to read. So whatever it finds then stays until it has it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec

from runtime.epochs import LOCAL_DISK, Disk
from runtime.upstreams.errors import DamagedConsumerError, UpstreamError

__all__ = ["CONSUMERS", "Consumer", "Consumers"]

CONSUMERS: Final = "consumers"
"""The directory, in the upstream's run directory."""
_SUFFIX: Final = ".json"
_MOST: Final = 100


class Consumer(msgspec.Struct, frozen=True):
    """A runtime that reads the log."""

    identity: str
    """Of its own log: what it is called here."""
    directory: str
    """Its run directory."""
    host: str
    """Where it ran last."""
    name: str
    """What it calls this upstream."""
    epoch: int = -1
    """It has committed everything up to this epoch, and never reads it again; -1: nothing yet."""
    written_ns: int = 0
    """When it said so, nanoseconds since the UTC epoch."""
    checksum: int | None = None
    """In a file: CRC-32 of the others, as JSON; None if an earlier release has written it."""

    def sealed(self) -> Consumer:
        """The consumer with its checksum."""
        plain = msgspec.structs.replace(self, checksum=None)
        return msgspec.structs.replace(self, checksum=crc32(msgspec.json.encode(plain)))


class Consumers:
    """The consumers of one run directory. Each has one writer; any number of readers."""

    def __init__(self, directory: Path, disk: Disk = LOCAL_DISK) -> None:
        """``directory`` is the run directory of the upstream."""
        self._directory = directory / CONSUMERS
        self._disk = disk

    def put(self, consumer: Consumer) -> None:
        """Say how far one has come, durably; raises `UpstreamError` for one too many."""
        path = self._path(consumer.identity)
        self._disk.make_directory(self._directory)
        if not self._disk.exists(path) and len(self.list()) >= _MOST:
            raise UpstreamError(f"expected at most {_MOST} consumers in {self._directory}, was one more")
        hidden = path.with_name(f".{path.name}")
        self._disk.write(hidden, [msgspec.json.encode(consumer.sealed())])
        self._disk.rename(hidden, path)
        self._disk.sync_directory(self._directory)

    def list(self) -> list[Consumer]:
        """All of them, by identity; raises `UpstreamError` for a file that says nothing."""
        names = [name for name in self._disk.names(self._directory) if name[0] != "." and name.endswith(_SUFFIX)]
        return [found for name in names if (found := self._read(self._directory / name)) is not None]

    def forget(self, identity: str) -> bool:
        """Wait for one no longer; False if there was none. It is refused later if it reads on and epochs are gone."""
        path = self._path(identity)
        if not self._disk.exists(path):
            return False
        self._disk.unlink(path)
        self._disk.sync_directory(self._directory)
        return True

    def passed(self, newest: int) -> int:
        """The newest epoch that all of them have committed; without any the ``newest`` of the log."""
        return min([newest, *[consumer.epoch for consumer in self.list()]])

    def _path(self, identity: str) -> Path:
        return self._directory / f"{identity}{_SUFFIX}"

    def _read(self, path: Path) -> Consumer | None:
        try:
            found = msgspec.json.decode(bytes(self._disk.read(path)), type=Consumer)
            if found.checksum is not None and found != found.sealed():
                raise ValueError("another checksum")
        except FileNotFoundError:  # it was forgotten meanwhile
            return None
        except ValueError as error:
            raise DamagedConsumerError(
                f"expected a consumer at {path}, was: {error}; nothing is retired until the consumer has written it "
                f"again, or `deltabook upstream forget` has removed it"
            ) from None
        return msgspec.structs.replace(found, checksum=None)
