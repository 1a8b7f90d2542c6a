"""The shipped queries are compiled in advance, on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from deltabook.cli import main

GOOD = "from runtime.native.plain import jit\n\n@jit\ndef step(p):\n    return 7\n"
BAD = GOOD.replace("return 7", "return p.cells")


def run(folder: Path, **variables: str) -> Result:
    env = {"DELTABOOK_NATIVE": "on", "DELTABOOK_KERNEL_CACHE": str(folder), **variables}
    return CliRunner().invoke(main, ["kernels"], env=env)


@pytest.mark.process
def test_kernels_are_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = [GOOD]
    monkeypatch.setattr("deltabook.cli.kernels.shipped_sources", lambda: sources)
    folder = tmp_path / "kernels"
    done = run(folder)
    assert (done.exit_code, done.stdout.startswith("compiled 1 kernels in ")) == (0, True)
    assert f", cache holds 0.0 MB in {folder}\n" in done.stdout
    sources.append(BAD)
    done = run(folder)
    assert (done.exit_code, done.stdout.startswith("compiled 0 kernels in ")) == (1, True)
    assert "stays interpreted: KernelSourceError" in done.stderr


def test_switched_off_nothing_is_compiled(tmp_path: Path) -> None:
    done = run(tmp_path, DELTABOOK_NATIVE="off")
    assert (done.exit_code, done.stdout) == (0, "compiled no kernels, they are interpreted: switched off\n")
