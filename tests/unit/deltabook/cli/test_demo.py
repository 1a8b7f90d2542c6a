"""The demo command: its last line, its exit code and its JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from deltabook.cli import demo
from deltabook.demo import CaptureError, Feed, Flow, SparkPlace, Stage

pytestmark = pytest.mark.process

FAKE_CHILD = Path(__file__).parents[1] / "demo" / "fake_child.py"
ROOT = Path(__file__).parents[4]
FIGURES = "1000 messages, 10 epochs, 60 view updates, 7 orders sent, 3 filled"


def run(
    monkeypatch: pytest.MonkeyPatch, folder: Path, *arguments: str, modes: Mapping[str, str] | None = None
) -> Result:
    """The command with fake children; `modes` says how one behaves that does not behave well."""

    def stages(
        run_folder: Path,
        flow: Flow,
        capture: Path | None,
        feed: Feed,
        *,
        run_id: str,
        spark: SparkPlace,
        pg_port: int | None,
    ) -> list[Stage]:
        del run_folder, flow, capture, feed, run_id, spark, pg_port

        def stage(role: str, order: int) -> Stage:
            mode = (modes or {}).get(role, "well")
            return Stage(role, lambda ports: [sys.executable, str(FAKE_CHILD), role, mode], order)

        return [stage("exchange", 2), stage("runtime", 3), stage("algo", 1)]

    monkeypatch.setattr(demo, "make_stages", stages)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("DELTABOOK_EXCHANGE_PORT", "nonsense that no child may see")
    options = ["--seconds", "0.2", "--dir", str(folder / "run"), *arguments]
    return CliRunner().invoke(demo.command, options)


def test_a_demo_that_worked_says_so_in_its_last_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = run(monkeypatch, tmp_path)
    assert result.output.splitlines()[-1] == f"demo: ok: {FIGURES}"
    assert result.exit_code == 0
    assert "what the demo did" in result.output


def test_figures_that_are_missing_fail_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = run(monkeypatch, tmp_path, modes={"algo": "idle"})
    last = "demo: failed: expected orders sent above 0, was 0; expected orders filled above 0, was 0"
    assert result.output.splitlines()[-1] == last
    assert result.exit_code == 1


def test_a_crash_fails_it_with_the_end_of_the_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = run(monkeypatch, tmp_path, modes={"runtime": "crash"})
    assert result.stdout.splitlines()[-1] == "demo: failed: runtime: out of paper, repeatedly"
    assert result.stderr.splitlines()[-2:] == ["  some log line", "  deltabook runtime: failed: out of paper"]
    assert result.exit_code == 1


def test_json_is_all_of_standard_output(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = run(monkeypatch, tmp_path, "--json")
    report = msgspec.json.decode(result.stdout)
    assert (report["ok"], report["outcome"], report["orders_filled"]) == (True, "ok", 3)
    assert report["reason"] == FIGURES
    assert "demo: exchange is up" in result.stderr


def test_a_failure_has_its_json_as_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = run(monkeypatch, tmp_path, "--json", modes={"algo": "unclean"})
    report = msgspec.json.decode(result.stdout)
    assert (report["ok"], report["reason"]) == (False, "algo: ended with exit code 3 when it was stopped")


def test_a_folder_that_holds_something_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "kept").touch()
    result = run(monkeypatch, tmp_path)
    assert result.output.startswith("demo: failed: expected an empty folder")
    assert (tmp_path / "run" / "kept").exists()


def test_no_capture_fails_it_before_anything_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def offline(environ: Mapping[str, str]) -> Path:
        raise CaptureError("could not fetch ob-analytics==0.1.0: no network; is this machine offline?")

    monkeypatch.setattr(demo, "capture_file", offline)
    result = run(monkeypatch, tmp_path, "--flow", "capture")
    assert result.output == "demo: failed: could not fetch ob-analytics==0.1.0: no network; is this machine offline?\n"
    assert list((tmp_path / "run").iterdir()) == []


def test_children_know_how_views_are_compiled() -> None:
    kernels = {"DELTABOOK_NATIVE": "off", "DELTABOOK_KERNEL_CACHE": "/kernels"}
    environ = demo._child_environ({**kernels, "DELTABOOK_ALGO_DIR": "elsewhere", "HOME": "/home"})
    assert environ == {**kernels, "HOME": "/home", "PYTHONUNBUFFERED": "1"}
