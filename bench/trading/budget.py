"""The budget of tick to trade: the time of each stage, from the histograms of the running processes.

```
exchange  delivery ─▶ runtime  applied ─▶ step ─▶ publish ─▶ algo  frame ─▶ journal ─▶ wire ─▶ exchange  request
```

``python -m bench.trading.budget --exchange HOST:PORT --runtime HOST:PORT --algo HOST:PORT --seconds 10`` reads the
metrics of three running processes, such as those of `make demo`, twice and prints the differences. It uses the
exchange's admin port, the runtime's HTTP port and the status port of the algorithm engine, without a token.
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
    """One stage between a match and the match of the answering order."""

    name: str
    """Name of the stage in the figures."""
    process: str
    """Process that measures the stage: exchange, runtime or algo."""
    metric: str
    """Name of the stage's histogram."""
    face: str = ""
    """Value of the label ``face``, for an exchange."""


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
"""Stages in their order; the last one, ``fsync``, follows the sending of the order."""


class StageTimes(msgspec.Struct, frozen=True):
    """Counts of a histogram up to a time, or between two times."""

    bounds_s: tuple[float, ...]
    """Upper bounds of the buckets in seconds, ascending, infinity last."""
    counts: tuple[float, ...]
    """Number of durations up to each bound."""
    total_s: float
    """Sum of all durations in seconds."""

    def since(self, before: StageTimes) -> StageTimes:
        """Return the counts since an earlier time."""
        counts = tuple(now - then for now, then in zip(self.counts, before.counts, strict=True))
        return StageTimes(self.bounds_s, counts, self.total_s - before.total_s)

    def quantile_us(self, share: float) -> float:
        """Return the microseconds within which this share of the durations lies, assuming an even distribution within a
        bucket.

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
    """Return the metrics of a process; ``address`` is HOST:PORT."""
    with urlopen(f"http://{address}/metrics", timeout=_PATIENCE_S) as answer:
        text: str = answer.read().decode()
        return text


def read_stages(pages: Mapping[str, str]) -> dict[str, StageTimes]:
    """Return the stages in the metrics of each process; raise `ValueError` if one is missing."""
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
    """Return ``trading.budget.STAGE.p50_us``, ``.p99_us`` and ``.mean_us`` of runs; a stage without durations is left
    out.
    """
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
