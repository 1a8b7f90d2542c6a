"""Alerts, dashboard and documentation look at what the processes really export, and at each other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, cast

import click
import pytest
from twisted.internet.task import Clock

from deltabook.cli import main
from deltabook.dashboard.process import DashboardMetrics
from deltabook.wire.service import UpstreamLine
from runtime.compiler import NamedSelect
from runtime.service.config import LiveConfig
from runtime.service.health.metrics import consumer_metrics, figure_metrics, upstream_metrics
from runtime.service.live import LiveRuntime
from runtime.upstreams import Consumer
from tests.cluster.alert_cases import CASES
from tests.generators.monitored import samples_of
from tests.generators.operated import Operated
from tests.generators.results_lab import ResultsLab
from tests.unit.algo_engine.status.test_http import Port
from tests.unit.deltabook.dashboard.test_process import FIGURES

ROOT = Path(__file__).parents[3]
ALERTS = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text(encoding="utf-8")
BOARD: dict[str, Any] = json.loads(
    (ROOT / "deploy" / "grafana" / "dashboards" / "deltabook.json").read_text(encoding="utf-8")
)
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
UPSTREAM = UpstreamLine(
    directory="a", state="reading", epoch=3, newest=4, lag_epochs=1, lag_ms=2.0, epochs=3, messages=9, rows=8, bytes=7,
    busy_s=0.1,
)  # fmt: skip
GRID = 24
"""Columns of a dashboard."""


class Reactor(Clock):  # type: ignore[misc, unused-ignore]  # Twisted's test classes are Any to mypy
    """Runs nothing by itself."""

    def callFromThread(self, call: Any, *args: Any) -> None:
        """What Twisted does a turn later."""
        call(*args)


def families(text: bytes) -> set[str]:
    """Names of the series of an answer, also of families that have no sample at this moment."""
    found: set[str] = set()
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text.decode(), re.MULTILINE):
        found |= {f"{name}_{end}" for end in ("bucket", "count", "sum")} if kind == "histogram" else {name}
    return found


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """What exchange, runtime, strategies and dashboard export, asked as a monitor asks them."""
    folder = tmp_path_factory.mktemp("exported")
    operated = Operated(folder)
    config = LiveConfig(directory=folder / "runtime", feed=("127.0.0.1", 1), runs_spark=False)
    view = NamedSelect("v", "SELECT symbol, COUNT(*) AS n FROM bids GROUP BY symbol", lane="express")
    runtime = LiveRuntime(Reactor(), config, [view], lambda _: None)
    metrics = cast(Any, runtime)._metrics  # as `ServiceParts` is given it
    found = {
        "deltabook_exchange_snapshot_age_seconds",
        *families(operated.ask("/metrics").body),
        *families(ResultsLab(metrics=metrics).ask("/metrics").body),
        *families(Port().ask("/metrics")[1]),
        *families(DashboardMetrics(lambda: FIGURES).answer("")[0]),
        *[key[0] for key in samples_of(upstream_metrics({"a": UPSTREAM}))],
        *[key[0] for key in samples_of(consumer_metrics([Consumer("1", "m", "here", "a")]))],
        *[key[0] for key in samples_of(figure_metrics(dict.fromkeys(runtime.figures(), 1.0)))],
    }
    operated.close()
    return found


def manual() -> str:
    """What people are told."""
    return (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")


def own(text: str) -> set[str]:
    """Names of our own series in an expression, and those of every process."""
    return set(re.findall(r"\b(?:deltabook|process)_\w+", text))


def expressions() -> str:
    """All that the dashboard asks for."""
    asked = [target["expr"] for panel in PANELS for target in panel["targets"]]
    asked += [variable["definition"] for variable in BOARD["templating"]["list"] if "definition" in variable]
    asked += [each["expr"] for each in BOARD["annotations"]["list"] if "expr" in each]
    return "\n".join(asked)


def test_every_alert_looks_at_what_is_exported(exported: set[str]) -> None:
    assert own("\n".join(re.findall(r"expr: ((?:.|\n)*?)\n +(?:for|labels):", ALERTS))) - exported == set()


def test_every_panel_looks_at_what_is_exported(exported: set[str]) -> None:
    assert own(expressions()) - exported == set()


def test_every_metric_is_documented_and_no_other(exported: set[str]) -> None:
    """By its name without the role, in the table of its role."""
    documented = set(re.findall(r"^\| `(deltabook_\w+)", manual(), re.MULTILINE))
    bare = {re.sub(r"_(bucket|count|sum)$", "", name) for name in exported if name.startswith("deltabook_")}
    assert documented == bare


def test_every_alert_has_its_section_and_no_other() -> None:
    sections = re.findall(r"^### (\w+)\n\n\*(\w+)\.\*", manual(), re.MULTILINE)
    alerts = re.findall(r"- alert: (\w+)\n(?:.*\n)*?\s+labels: \{severity: (\w+)\}", ALERTS)
    assert sections == alerts


def test_panels_fill_the_grid_without_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert all(x < GRID for x, _ in cells), panel["title"]
        assert not cells & taken, panel["title"]
        taken |= cells
    bottom = max(y for _, y in taken) + 1
    assert len(taken) == GRID * bottom, "no holes"


def test_panels_can_be_told_apart_and_have_one_source() -> None:
    assert len({panel["id"] for panel in BOARD["panels"]}) == len(BOARD["panels"])
    assert {panel["datasource"]["uid"] for panel in PANELS} == {"${datasource}"}
    for panel in PANELS:
        letters = [target["refId"] for target in panel["targets"]]
        assert letters == sorted(set(letters)), panel["title"]


def test_every_alert_has_a_case_on_both_sides() -> None:
    assert {case.alert for case in CASES} == set(re.findall(r"- alert: (\w+)", ALERTS))
    assert all(case.quiet and case.loud and case.quiet != case.loud for case in CASES)


def test_every_command_of_the_manual_is_one() -> None:
    told = re.findall(r"`deltabook ((?:[a-z]+ ?)+)", manual())
    for words in told:
        command: click.Command = main
        for word in words.split():
            if not isinstance(command, click.Group):
                break
            found = command.get_command(click.Context(command), word)
            assert found is not None, f"deltabook {words}"
            command = found
