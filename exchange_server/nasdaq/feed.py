"""The exchange's feed as a sequence of ITCH messages on disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from exchange_server.inputs import MarketRules
from exchange_server.journal import PacketFile
from exchange_server.nasdaq.listing import list_instruments
from exchange_server.nasdaq.translator import Translator

__all__ = ["ItchFeed"]


class ItchFeed:
    """Translates the feed once and keeps the packets, from which every listener is served.

    A derived file like that of the lines: it is written anew while the journal is recovered, so that it can neither be
    behind nor ahead of it. That costs about the disk space of the lines, and in return a listener's gap is read and
    not computed: with an index into the lines, every log-in would translate its gap again, from a copy of the
    translator's state (which can hold a million orders) for each entry of the index.
    """

    def __init__(self, path: Path, rules: MarketRules) -> None:
        """Raises `JournalError` if the file cannot be opened."""
        listed, self.unlisted = list_instruments(rules.instruments)
        """Why symbols are not listed."""
        self.symbols = tuple(listed)
        """Those that are."""
        self._translator = Translator(listed, rules.replay_symbol if rules.replay_mode == "as-recorded" else "")
        self.records = PacketFile(path)
        self.on_append: list[Callable[[bytes], None]] = []
        """Hear what was appended."""

    @property
    def next_sequence(self) -> int:
        """Number of the next message."""
        return self.records.next_number

    @property
    def is_over(self) -> bool:
        """No further message will come, because timestamps have no more room."""
        return self._translator.is_over

    @property
    def undisplayed(self) -> int:
        """Orders and trades that were left out because a field of theirs would not fit."""
        return self._translator.undisplayed

    def take(self, lines: Sequence[str]) -> None:
        """Take in the next lines of the feed; raises `JournalError` if the packets cannot be written."""
        packets = self._translator.translate(lines)
        if packets:
            data = b"".join(packets)
            self.records.append(data, len(packets))
            for hear in self.on_append:
                hear(data)

    def close(self) -> None:
        """Close the file."""
        self.records.close()
