"""Setting up touches nothing but this checkout."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

PACKAGES = ("compiler", "native", "plan", "spark", "views")
SCRIPT = Path(__file__).parents[2] / "scripts" / "setup.sh"


def test_a_linked_environment_is_refused_and_left_alone(tmp_path: Path) -> None:
    """A new environment empties the directory first: through a link it would be another checkout's."""
    others, checkout = tmp_path / "others", tmp_path / "checkout"
    others.mkdir()
    (others / "pyvenv.cfg").write_text("theirs")
    (checkout / "scripts").mkdir(parents=True)
    shutil.copy(SCRIPT, checkout / "scripts")
    (checkout / ".venv").symlink_to(others)
    done = subprocess.run(
        [str(checkout / "scripts" / "setup.sh")], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, (others / "pyvenv.cfg").read_text()) == (1, "theirs")
    assert done.stderr.startswith("setup: failed: expected .venv to be this checkout's own, was a link to ")


@pytest.mark.parametrize("code", [0, 1])
@pytest.mark.parametrize("part", ["kernels", "classes"])
def test_what_could_not_be_made_in_advance_is_tried_again(tmp_path: Path, part: str, code: int) -> None:
    """Set-up is stamped as done only where `deltabook kernels` and `deltabook classes` succeeded."""
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "python").write_text(f'#!/bin/sh\n[ "$*" = "-m deltabook {part}" ] && exit {code}\nexit 0\n')
    (programs / "python").chmod(0o755)
    (programs / "activate").write_text(str(tmp_path / ".venv"))
    for name in ("requirements.lock", "requirements-java.lock", "pyproject.toml"):
        (tmp_path / name).write_text("pyspark==4\n")
    for folder in ("queries", *(f"runtime/{name}" for name in PACKAGES), "deltabook/demo"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "deltabook" / "demo" / "plan.py").touch()
    (tmp_path / "runtime" / "spark" / "java.py").touch()
    (tmp_path / "scripts").mkdir()
    shutil.copy(SCRIPT, tmp_path / "scripts")
    done = subprocess.run(
        [str(tmp_path / "scripts" / "setup.sh")], capture_output=True, text=True, check=False, timeout=60
    )
    stamps = {path.name for path in (tmp_path / ".venv").glob(".deltabook-*")}
    assert done.returncode == 0, done.stderr
    others = {"packages", "java", "kernels", "classes"} - {part}
    assert stamps - {f".deltabook-{part}"} == {f".deltabook-{name}" for name in others}
    assert (f".deltabook-{part}" in stamps) == (code == 0)
