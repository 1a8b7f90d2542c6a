"""Every alert goes off when it should and at no other time, in the words of Prometheus's own tool."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cluster.alert_cases import CASES, STEP_S, Case

pytestmark = [pytest.mark.slow, pytest.mark.process]

MONITOR = Path(__file__).parents[3] / "deploy" / "prometheus"
RULES = MONITOR / "alerts.yml"
QUIET_AT = ("0s", "1m", "5m", "10m", "15m")


def promtool(*arguments: str) -> None:
    """Run it; what it finds fault with is what the test fails with."""
    tool = shutil.which("promtool")
    assert tool, "expected promtool, which is in Debian's package prometheus; was none"
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-8_000:]


def rules() -> str:
    return RULES.read_text(encoding="utf-8")


def severities() -> dict[str, str]:
    found = re.findall(r"- alert: (\w+)\n(?:.*\n)*?\s+labels: \{severity: (\w+)\}", rules())
    return dict(found)


def test_configuration_and_rules_are_well_formed() -> None:
    promtool("check", "config", "--syntax-only", "--lint=all", str(MONITOR / "prometheus.yml"))
    promtool("check", "rules", "--lint=all", str(RULES))


def test_every_alert_has_a_case() -> None:
    assert sorted({case.alert for case in CASES}) == sorted(re.findall(r"- alert: (\w+)", rules()))
    assert set(severities().values()) == {"page", "ticket"}


def as_test(case: Case, series: dict[str, str], expected: dict[str, bool]) -> dict[str, Any]:
    """What promtool is given: at each time whether the alert is on."""
    labels = {**case.labels, "severity": severities()[case.alert]}
    return {
        "interval": f"{STEP_S}s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [
            {"eval_time": at, "alertname": case.alert, "exp_alerts": [{"exp_labels": labels}] if is_on else []}
            for at, is_on in expected.items()
        ],
    }


def test_alerts_are_on_when_they_should_be_and_not_before(tmp_path: Path) -> None:
    """Without what they say: that is a template, whose words are for people."""
    bare = re.sub(r"\n\s+annotations:\n\s+summary: .*", "", rules())
    (tmp_path / "alerts.yml").write_text(bare, encoding="utf-8")
    tests = [as_test(case, case.quiet, dict.fromkeys(QUIET_AT, False)) for case in CASES]
    tests += [as_test(case, case.loud, {case.too_early: False, case.at: True}) for case in CASES]
    told = {"rule_files": ["alerts.yml"], "evaluation_interval": f"{STEP_S}s", "tests": tests}
    (tmp_path / "tests.yml").write_text(json.dumps(told), encoding="utf-8")
    promtool("test", "rules", str(tmp_path / "tests.yml"))
