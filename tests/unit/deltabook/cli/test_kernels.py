"""The shipped queries are compiled in advance, on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from deltabook.cli import main
from deltabook.cli.kernels import ShippedSources, shipped_sources
from deltabook.demo.plan import VIEWS
from queries import QUERIES_DIR
from runtime.compiler import MARKET_RELATIONS, compile_program, extend_program, read_script
from runtime.views.code import sources_of

GOOD = "from runtime.native.plain import jit\n\n@jit\ndef step(p):\n    return 7\n"
BAD = GOOD.replace("return 7", "return p.cells")


def run(folder: Path, **variables: str) -> Result:
    env = {"DELTABOOK_NATIVE": "on", "DELTABOOK_KERNEL_CACHE": str(folder), **variables}
    return CliRunner().invoke(main, ["kernels"], env=env)


@pytest.mark.process
def test_kernels_are_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exits with 1 only for what is skipped, and then for what cannot be compiled."""
    sources = [GOOD]
    monkeypatch.setattr("deltabook.cli.kernels.shipped_sources", lambda: ShippedSources(sources, ["x.sql: broken"]))
    folder = tmp_path / "kernels"
    done = run(folder)
    assert (done.exit_code, done.stdout.startswith("compiled 1 kernels in ")) == (1, True)
    assert done.stderr == "skipped: x.sql: broken\n"
    assert f" s, 0 were cached, cache contains 0.0 MiB in {folder}\n" in done.stdout
    sources.append(BAD)
    done = run(folder)
    assert (done.exit_code, done.stdout.startswith("compiled 0 kernels in ")) == (1, True)
    assert " s, 1 were cached, " in done.stdout
    assert "stays interpreted: KernelSourceError" in done.stderr


def test_switched_off_nothing_is_compiled(tmp_path: Path) -> None:
    done = run(tmp_path, DELTABOOK_NATIVE="off")
    assert (done.exit_code, done.stdout) == (0, "compiled no kernels, they are interpreted: switched off\n")


@pytest.mark.parametrize("trouble", ["unsafe", "impossible"])
def test_a_folder_that_cannot_be_used_is_one_line(tmp_path: Path, trouble: str) -> None:
    folder = tmp_path / "kernels"
    folder.touch() if trouble == "impossible" else folder.mkdir()
    folder.chmod(0o777)
    done = run(folder)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("deltabook: error: compiled no kernels, they are interpreted: ")
    assert run(folder, DELTABOOK_NATIVE="OFF").exit_code == 0


def test_a_broken_query_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "bad.sql").write_text("SELECT nothing FROM bids")
    (tmp_path / "good.sql").write_text("SELECT SUM(price) AS s FROM bids")
    shipped = shipped_sources(tmp_path)
    (tmp_path / "bad.sql").unlink()
    assert shipped.sources == shipped_sources(tmp_path).sources
    (reason,) = shipped.skipped
    assert reason.startswith(f"{tmp_path / 'bad.sql'}:1:8: unknown column 'nothing'")


def test_views_that_strategies_add_to_the_demo_are_compiled() -> None:
    """`book_ages` and `trade_moments` share sums with views of the demo, by which their kernels differ."""
    together = [read_script(QUERIES_DIR / f"{name}.sql").selects[0] for name in sorted(VIEWS)]
    program = compile_program(together, MARKET_RELATIONS)
    for name in ("trade_moments", "broker_levels", "book_ages"):
        select = read_script(QUERIES_DIR / f"{name}.sql").selects[0]
        program = extend_program(program, [select], MARKET_RELATIONS)
    needed = {*sources_of(program, "relations"), *sources_of(program, "payloads")}
    assert needed <= set(shipped_sources().sources)
