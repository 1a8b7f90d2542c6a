"""The budget of tick to trade: how long each stage took, from the histograms of the processes that run.

```
exchange  delivery ─▶ runtime  applied ─▶ step ─▶ publish ─▶ algo  frame ─▶ journal ─▶ wire ─▶ exchange  request
```

``python -m bench.trading.budget --exchange HOST:PORT --runtime HOST:PORT --algo HOST:PORT --seconds 10`` asks three
processes of a loop that runs, such as those of `make demo`, twice and prints what lies in between: the exchange's admin
port, the runtime's HTTP port and the status port of the algorithm engine, without a token.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.request import urlopen

import click
import msgspec
from prometheus_client.parser import text_string_to_metric_families

from bench.report import Record, print_table, record

__all__ = ["STAGES", "Stage", "StageTimes", "budget_records", "read_stages", "scrape"]

_PATIENCE_S: Final = 10.0


class Stage(msgspec.Struct, frozen=True):
    """One stage on the way from a match to the answer's match."""

    name: str
    """Key of its figures."""
    process: str
    """exchange, runtime or algo."""
    metric: str
    """Its histogram."""
    face: str = ""
    """Of an exchange: the value of the label ``face``."""


STAGES: Final = (
    Stage("delivery", "exchange", "deltabook_exchange_delivery_seconds", "itch"),
    Stage("applied", "runtime", "deltabook_runtime_applied_seconds"),
    Stage("step", "runtime", "deltabook_runtime_step_seconds"),
    Stage("publish", "runtime", "deltabook_runtime_publish_seconds"),
    Stage("frame", "algo", "deltabook_algo_frame_seconds"),
    Stage("journal", "algo", "deltabook_algo_journal_seconds"),
    Stage("wire", "algo", "deltabook_algo_wire_seconds"),
    Stage("request", "exchange", "deltabook_exchange_request_seconds", "text"),
    Stage("fsync", "algo", "deltabook_algo_fsync_seconds"),
)
"""In the order of the way; the last one is behind the sending."""


class StageTimes(msgspec.Struct, frozen=True):
    """What a histogram counted, up to a moment or between two."""

    bounds_s: tuple[float, ...]
    """Upper bounds of its buckets, ascending, infinity last."""
    counts: tuple[float, ...]
    """So many durations were no longer than each."""
    total_s: float
    """All durations, added up."""

    def since(self, before: StageTimes) -> StageTimes:
        """What was counted after an earlier moment."""
        counts = tuple(now - then for now, then in zip(self.counts, before.counts, strict=True))
        return StageTimes(self.bounds_s, counts, self.total_s - before.total_s)

    def quantile_us(self, share: float) -> float:
        """Microseconds that were enough for this share of the durations, taken to be spread evenly in their bucket.

        >>> StageTimes((1e-6, 2e-6, float("inf")), (0.0, 10.0, 10.0), 1.5e-5).quantile_us(0.5)
        1.5
        """
        wanted, lower_s, below = share * self.counts[-1], 0.0, 0.0
        for bound_s, count in zip(self.bounds_s[:-1], self.counts, strict=False):
            if count >= wanted and count > below:
                return 1e6 * (lower_s + (bound_s - lower_s) * (wanted - below) / (count - below))
            lower_s, below = bound_s, count
        return 1e6 * lower_s


def scrape(address: str) -> str:
    """What a process tells a monitor; ``address`` is HOST:PORT."""
    with urlopen(f"http://{address}/metrics", timeout=_PATIENCE_S) as answer:
        text: str = answer.read().decode()
        return text


def read_stages(pages: Mapping[str, str]) -> dict[str, StageTimes]:
    """The stages in the metrics of each process; raises `ValueError` where one is missing."""
    families = {
        process: {family.name: family for family in text_string_to_metric_families(page)}
        for process, page in pages.items()
    }
    found: dict[str, StageTimes] = {}
    for stage in STAGES:
        family = families[stage.process].get(stage.metric)
        samples = [] if family is None else family.samples
        own = [sample for sample in samples if sample.labels.get("face", "") == stage.face]
        buckets = sorted((float(s.labels["le"]), s.value) for s in own if s.name.endswith("_bucket"))
        if not buckets:
            raise ValueError(f"expected {stage.metric} of the {stage.process}, was none (face {stage.face or 'none'})")
        bounds_s, counts = zip(*buckets, strict=True)
        total_s = sum(s.value for s in own if s.name.endswith("_sum"))
        found[stage.name] = StageTimes(bounds_s, counts, total_s)
    return found


def budget_records(runs: Sequence[Mapping[str, StageTimes]]) -> list[Record]:
    """``trading.budget.STAGE.p50_us``, ``.p99_us`` and ``.mean_us`` of runs; a stage that never was is left out."""
    records: list[Record] = []
    for stage in STAGES:
        times = [run[stage.name] for run in runs if run[stage.name].counts[-1]]
        if not times:
            continue
        where = f"{stage.process}, {sum(int(each.counts[-1]) for each in times)} times"
        for key, values in (
            ("p50_us", [each.quantile_us(0.5) for each in times]),
            ("p99_us", [each.quantile_us(0.99) for each in times]),
            ("mean_us", [1e6 * each.total_s / each.counts[-1] for each in times]),
        ):
            records.append(record(f"trading.budget.{stage.name}.{key}", values, "us", where))
    return records


@click.command()
@click.option("--exchange", required=True, metavar="HOST:PORT", help="The exchange's admin port.")
@click.option("--runtime", required=True, metavar="HOST:PORT", help="The runtime's HTTP port.")
@click.option("--algo", required=True, metavar="HOST:PORT", help="The algorithm engine's status port.")
@click.option("--seconds", type=click.FloatRange(0.1), default=10.0, show_default=True, help="To measure for.")
def main(exchange: str, runtime: str, algo: str, seconds: float) -> None:
    """Print how long each stage of tick to trade took in a loop that runs."""
    addresses = {"exchange": exchange, "runtime": runtime, "algo": algo}
    before = read_stages({process: scrape(address) for process, address in addresses.items()})
    time.sleep(seconds)
    after = read_stages({process: scrape(address) for process, address in addresses.items()})
    print_table("budget", budget_records([{name: after[name].since(before[name]) for name in after}]))


if __name__ == "__main__":
    main()
