"""What the dashboard shows and alerts look at is there, in the cluster; and every alert goes off when it should."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import quote

import pytest

from deltabook.cluster.secrets import make_secrets
from tests.cluster.alert_cases import CASES, STEP_S, Case
from tests.cluster.compose import ROOT, ComposeCluster
from tests.cluster.engine import Engine

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(2400)]

MONITOR: Final = ROOT / "deploy" / "prometheus"
RULES: Final = (MONITOR / "alerts.yml").read_text(encoding="utf-8")
BOARD: Final = json.loads((ROOT / "deploy" / "grafana" / "dashboards" / "deltabook.json").read_text(encoding="utf-8"))
IMAGE: Final = "deltabook-prometheus:test"
QUIET_AT: Final = ("0s", "1m", "5m", "10m", "15m")
WITHOUT_DATA: Final = {"Upstreams", "Firing alerts"}
"""Panels of things that this cluster has not, or had better not have."""
FIGURES: Final = {"$__rate_interval": "30s", "$runtime": ".*"}
"""What Grafana puts in the place of its variables."""
TARGETS: Final = {
    "algo", "dashboard", "exchange", "prometheus", "runtime", "spark-driver", "spark-executors", "spark-master",
    "spark-worker",
}  # fmt: skip
Ask = Callable[[str], list[dict[str, Any]]]
"""Every series that an expression has now; fails where the expression is none."""


@pytest.fixture(scope="module")
def monitor_image(engine: Engine) -> str:
    """The image of the monitor; making it checks its files."""
    engine.run("build", "-q", "-t", IMAGE, str(MONITOR), timeout_s=900.0)
    return IMAGE


def severities() -> dict[str, str]:
    """Alert → how urgent it is."""
    return dict(re.findall(r"- alert: (\w+)\n(?:.*\n)*?\s+labels: \{severity: (\w+)\}", RULES))


def as_test(case: Case, series: dict[str, str], expected: dict[str, bool]) -> dict[str, Any]:
    """What Prometheus's own tool is given: at each time whether the alert is on."""
    labels = {**case.labels, "severity": severities()[case.alert]}
    return {
        "interval": f"{STEP_S}s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {"eval_time": at, "alertname": case.alert, "exp_alerts": [{"exp_labels": labels}] if is_on else []}
            for at, is_on in expected.items()
        ],
    }


def test_alerts_are_on_when_they_should_be_and_not_before(engine: Engine, monitor_image: str) -> None:
    """Without what they say: those are templates, whose words are for people."""
    tests = [as_test(case, case.quiet, dict.fromkeys(QUIET_AT, False)) for case in CASES]
    tests += [as_test(case, case.loud, {case.too_early: False, case.at: True}) for case in CASES]
    told = {"rule_files": ["alerts.yml"], "evaluation_interval": f"{STEP_S}s", "tests": tests}
    script = (
        "cd /tmp && sed '/^ *annotations:$/d; /^ *summary: /d' /etc/prometheus/alerts.yml >alerts.yml "
        "&& cat >tests.yml && promtool test rules tests.yml"
    )
    command = ("run", "--rm", "-i", "--network", "none", "--entrypoint", "sh", monitor_image, "-c", script)
    engine.run(*command, stdin=json.dumps(told).encode())


@pytest.fixture(scope="module")
def ask(engine: Engine, image: str, monitor_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """A cluster's monitor, once every target has answered, Spark has published and a strategy has traded."""
    secrets = tmp_path_factory.mktemp("secrets")
    make_secrets(secrets)
    environment = {"DELTABOOK_PROMETHEUS_IMAGE": monitor_image}
    project = "deltabook-test-monitoring"
    cluster = ComposeCluster(engine, project, secrets, image=image, profiles=("monitoring",), environment=environment)
    with cluster:
        where = cluster.published("prometheus", 9090)

        def asked(expression: str) -> list[dict[str, Any]]:
            with urllib.request.urlopen(f"http://{where}/api/v1/query?query={quote(expression)}", timeout=60) as answer:
                told = json.load(answer)
            assert told["status"] == "success", told
            result: list[dict[str, Any]] = told["data"]["result"]
            return result

        def await_that(expression: str, words: str) -> None:
            cluster.wait_until(lambda: bool(asked(expression)), words)

        await_that(f"count(count by (job) (up == 1)) == {len(TARGETS)}", "targets that answer")
        await_that("deltabook_runtime_spark_batch_seconds_count > 3", "batches on Spark")
        await_that("sum(deltabook_algo_fills_total) > 0", "a strategy that trades")
        await_that("count_over_time(deltabook_algo_fills_total[2m]) > 8", "looks at rates")
        yield asked


def filled_in(expression: str) -> str:
    """An expression as Grafana would send it."""
    for variable, value in FIGURES.items():
        expression = expression.replace(variable, value)
    assert "$" not in expression, f"expected no other variable, was {expression}"
    return expression


def test_every_target_answers(ask: Ask) -> None:
    told = {(series["metric"]["job"], series["value"][1]) for series in ask("up")}
    assert told == {(job, "1") for job in TARGETS}


def test_every_panel_has_data(ask: Ask) -> None:
    panels = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
    queries = {(panel["title"], filled_in(target["expr"])) for panel in panels for target in panel["targets"]}
    missing = {(title, query) for title, query in queries if title not in WITHOUT_DATA and not ask(query)}
    assert missing == set()


def test_every_alert_looks_at_something_that_is_there(ask: Ask) -> None:
    wanted = set(re.findall(r"\b(?:deltabook|metrics|process)_\w+", RULES))
    of_upstreams = {name for name in wanted if name.startswith("deltabook_runtime_upstream_")}
    assert {name for name in wanted - of_upstreams if not ask(name)} == set()


def test_all_that_was_started_together_has_one_run_id(ask: Ask) -> None:
    told = [series["metric"] for series in ask("deltabook_build_info")]
    assert {each["role"] for each in told} == {"algo", "dashboard", "exchange", "runtime"}
    assert {each["run"] for each in told} == {"deltabook-test-monitoring"}
