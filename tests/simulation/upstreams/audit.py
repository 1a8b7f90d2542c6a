"""Checks of every visible epoch of all runtimes against the markets, in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

from runtime.epochs import Cut, EpochLogReader, Footer, Segment
from runtime.relations import Retention
from runtime.upstreams import Symbols
from tests.simulation.audit import AuditError, add_rows, difference
from tests.simulation.book import Book, Row
from tests.simulation.faults import Faults
from tests.simulation.market import Market
from tests.simulation.trace import Trace
from tests.simulation.upstreams.sites import Site, Volume

__all__ = ["Audit", "AuditError"]

_RELATIONS = ("bids", "asks", "trades")


class Audit:
    """Audit of one runtime: reads its log independently after every step; data visible once must remain."""

    def __init__(
        self,
        site: Site,
        sites: Mapping[str, Site],
        markets: Mapping[str, Market],
        shape: tuple[Retention, Symbols],
        trace: Trace,
        upstreams: Mapping[str, Audit],
    ) -> None:
        """Create the audit of a site.

        ``markets`` are the markets whose messages arrive here, by the path of the origin; ``upstreams`` are audits by
        name.
        """
        self.site = site
        self.upstreams = upstreams
        self._log = EpochLogReader(site.root / "epochs", Volume(sites, Faults(random.Random(0), trace)))
        self._symbols = shape[1]
        self._markets = markets
        self._books = {path: Book(market.messages, shape[0]) for path, market in markets.items()}
        self._relations: dict[str, Counter[Row]] = {name: Counter() for name in _RELATIONS}
        self._checksums: list[int] = []
        self.footers: list[Footer] = []
        """Footers of all epochs."""
        self.messages = 0

    @property
    def cuts(self) -> Mapping[str, Cut]:
        """Cuts of the newest epoch."""
        return self.footers[-1].cuts if self.footers else {}

    def look(self) -> None:
        """Check the data that became visible since the last call, and that the newest epoch is unchanged."""
        newest = len(self.footers) - 1
        if newest >= 0 and self._log.disk.exists(self._log.path(newest)):
            found = self._log.read(newest).checksum
            if found != self._checksums[newest]:
                raise AuditError(f"expected epoch {newest} of {self.site.name} as it was, was another one")
        while self._log.disk.exists(self._log.path(len(self.footers))):
            self._epoch(self._log.read(len(self.footers)))

    def _epoch(self, segment: Segment) -> None:
        segment.verify()
        footer, epoch, who = segment.footer, len(self.footers), self.site.name
        before = self.cuts
        good = 0
        for path, market in self._markets.items():
            cut, last = footer.cuts.get(path, Cut("", 0, 0)).sequence, before.get(path, Cut("", 0, 0)).sequence
            good += cut - last if "/" not in path else 0
            self._expect_whole_request(market, cut)
            self._books[path].advance(cut)
        for name, audit in self.upstreams.items():
            self._expect_cut_of(name, audit, footer)
            if name in footer.cuts:
                begin = before[name].sequence + 1 if name in before else 0
                good += sum(audit.footers[number].messages for number in range(begin, footer.cuts[name].sequence + 1))
        # A snapshot covers messages that are not counted again.
        begins = any(name in footer.cuts and name not in before for name in self.upstreams)
        if footer.messages > good or (footer.messages < good and not begins):
            raise AuditError(f"expected {good} messages in epoch {epoch} of {who}, was {footer.messages}")
        for name in _RELATIONS:
            if (rows := segment.rows(name)) is not None:
                add_rows(self._relations[name], rows)
        expected = self._expected()
        for name in _RELATIONS:
            if self._relations[name] != expected[name]:
                wrong = difference(self._relations[name], expected[name])
                raise AuditError(f"relation {name} at epoch {epoch} of {who}: {wrong}")
        self.footers.append(footer)
        self._checksums.append(segment.checksum)
        self.messages += footer.messages

    def _expect_cut_of(self, name: str, audit: Audit, footer: Footer) -> None:
        """Check that this epoch covers all origins of an upstream's epoch, or none: never a part."""
        cut = footer.cuts.get(name)
        if cut is None:
            return
        own = audit.footers[cut.sequence].cuts
        cuts = {path.removeprefix(f"{name}/"): at for path, at in footer.cuts.items() if path.startswith(f"{name}/")}
        if cuts != own:
            raise AuditError(f"expected the cuts of epoch {cut.sequence} of {name}, {own}, was {cuts}")

    def _expect_whole_request(self, market: Market, sequence: int) -> None:
        both = market.messages[sequence - 1 : sequence + 1] if sequence else []
        if len(both) == 2 and both[0] and both[1] and both[0].time_ns == both[1].time_ns:
            raise AuditError(f"expected an epoch of {self.site.name} to end with a request, was behind {sequence}")

    def _expected(self) -> dict[str, Counter[Row]]:
        found: dict[str, Counter[Row]] = {name: Counter() for name in _RELATIONS}
        for path, book in self._books.items():
            places = path.split("/")[:-1]
            prefix = "".join(f"{place}:" for place in places) if self._symbols == "prefixed" else ""
            relations = book.relations()
            for name in _RELATIONS:
                rows = relations[name]
                at = 5 if name != "trades" else 2
                for row, count in rows.items():
                    found[name][(*row[:at], prefix + row[at], *row[at + 1 :])] += count
        return found

    def is_cut_behind_all(self) -> bool:
        """Return True if all messages of its markets are covered."""
        return all(
            self.cuts.get(path, Cut("", 0, 0)).sequence == market.count for path, market in self._markets.items()
        )
