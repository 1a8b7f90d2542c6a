"""`scripts/cluster.sh` in front of an engine that only writes down what it is asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ENGINE = """\
#!/bin/sh
# Answers what the script asks an engine; the run that is up is in a file.
echo "docker $* [workers=$DELTABOOK_WORKERS run=$DELTABOOK_RUN_ID secrets=$DELTABOOK_SECRETS]" >>"$CALLS"
case "$*" in
info) [ ! -e "$CALLS.silent" ] || { echo "Cannot connect to the Docker daemon" >&2; exit 1; } ;;
*" ps -q exchange") [ ! -e "$CALLS.run" ] || echo 4711 ;;
inspect*) echo "PATH=/bin"; echo "DELTABOOK_RUN_ID=$(cat "$CALLS.run")" ;;
*" port dashboard 8000") echo "127.0.0.1:1" ;;
*" port "*) exit 1 ;;
esac
"""
SECRETS = """\
#!/bin/sh
[ "$1 $2 $3 $4" = "-m deltabook cluster secrets" ] && mkdir -p "$5"
"""


class Script:
    """A checkout with the script, and an engine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls_file = folder / "calls"
        (folder / "scripts").mkdir()
        (folder / "deploy").mkdir()
        (folder / "bin").mkdir()
        shutil.copy(ROOT / "scripts" / "cluster.sh", folder / "scripts")
        self._program(folder / "bin" / "docker", ENGINE)
        python = folder / ".venv" / "bin" / "python"
        python.parent.mkdir(parents=True)
        self._program(python, SECRETS)

    @staticmethod
    def _program(path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("DELTABOOK_", "DOCKER_"))}
        path = f"{self.folder / 'bin'}{os.pathsep}{kept['PATH']}"
        environment = {**kept, "PATH": path, "CALLS": str(self.calls_file), **variables}
        command = ["bash", str(self.folder / "scripts" / "cluster.sh"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)

    def call(self, words: str) -> str:
        """The one call that has these words."""
        (found,) = [line for line in self.calls_file.read_text().splitlines() if words in line]
        return found


@pytest.fixture
def script(tmp_path: Path) -> Script:
    return Script(tmp_path)


def test_what_is_up_keeps_its_run(script: Script) -> None:
    (script.folder / "calls.run").write_text("cluster-7\n")
    done = script.run("up", WORKERS="4")
    assert done.returncode == 0, done.stderr
    assert "[workers=4 run=cluster-7 " in script.call(" up -d ")
    assert "dashboard      http://127.0.0.1:1/" in done.stdout


def test_a_new_run_has_a_name_of_its_own_and_two_workers(script: Script) -> None:
    done = script.run("up")
    assert done.returncode == 0, done.stderr
    up = script.call(" up -d ")
    assert "[workers=2 run=cluster-2" in up
    assert up.endswith(f"secrets={script.folder}/deploy/secrets]")
    assert " -t deltabook:local " in script.call("docker build")


def test_the_compose_file_is_read_and_the_environment_wins(script: Script) -> None:
    lines = "DELTABOOK_WORKERS=3", 'DELTABOOK_IMAGE="mine:1"', "DELTABOOK_RUN_ID=day", "DELTABOOK_SECRETS=./hidden"
    (script.folder / "deploy" / ".env").write_text("\n".join(lines) + "\n")
    done = script.run("up", DELTABOOK_RUN_ID="night")
    assert done.returncode == 0, done.stderr
    assert f"[workers=3 run=night secrets={script.folder}/deploy/hidden]" in script.call(" up -d ")
    assert " -t mine:1 " in script.call("docker build")


def test_workers_leave_nothing_and_the_state_stays_by_default(script: Script) -> None:
    assert script.run("down").returncode == 0
    calls = script.calls_file.read_text()
    assert calls.index(" stop ") < calls.index(" rm --force --volumes") < calls.index(" down ")
    assert "--volumes" not in script.call(" down ")
    script.calls_file.unlink()
    assert script.run("down", VOLUMES="1").returncode == 0
    assert "--volumes" in script.call(" down ")


@pytest.mark.parametrize("command", ["up", "down"])
def test_without_an_engine_one_line_says_so(script: Script, command: str) -> None:
    (script.folder / "calls.silent").touch()
    done = script.run(command)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "cluster: failed: expected a Docker engine, was: Cannot connect to the Docker daemon\n"
