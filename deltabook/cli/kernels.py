"""`deltabook kernels` and `deltabook classes`: make files in advance that speed up later starts.

`deltabook kernels` compiles the kernels of the shipped queries, and `deltabook classes` archives the classes that
Spark's Java loads.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from deltabook.cli._terminal import progress
from runtime.spark.requirements import check_requirements

if TYPE_CHECKING:
    from runtime.compiler import NamedSelect, Program

__all__ = ["ShippedSources", "classes_command", "kernels_command", "shipped_sources"]

_MIB: Final = 1024 * 1024


class ShippedSources(NamedTuple):
    """Kernel sources of a folder of queries."""

    sources: list[str]
    """Sources without duplicates."""
    skipped: list[str]
    """Reason for each file that cannot be compiled."""


def shipped_sources(folder: Path | None = None) -> ShippedSources:
    """Return the sources of all kernels that shipped code needs.

    These are, in both lanes, the kernels of each shipped query alone, of the demo's queries together, and of these with
    the views that its strategies add; and the kernels of order books and of results.
    """
    from algo_engine.loader import load_strategies
    from deltabook.demo.plan import STRATEGIES, VIEWS
    from queries import QUERIES_DIR
    from runtime.compiler import MARKET_RELATIONS, compile_program, extend_program, read_script
    from runtime.relations import KERNEL_SOURCE
    from runtime.views.code import sources_of
    from runtime.views.materialised import RESULT_KERNEL_SOURCE

    programs: list[Program] = []
    selects: dict[str, NamedSelect] = {}
    skipped: list[str] = []
    for path in sorted((folder or QUERIES_DIR).glob("*.sql")):
        try:
            script = read_script(path)
            if script.selects:
                programs.append(compile_program(script.selects, script.relations or MARKET_RELATIONS))
        except (OSError, ValueError) as error:
            skipped.append(str(error))
        else:
            selects |= {select.name: select for select in script.selects}
    if together := [selects[name] for name in sorted(VIEWS) if name in selects]:
        programs.append(compile_program(together, MARKET_RELATIONS))
        # A view that is added to others shares sums with them, and then has another kernel than alone.
        added = {name for loaded in load_strategies(STRATEGIES) for name in loaded.strategy.queries}
        more = [selects[name] for name in sorted(added.difference(VIEWS)) if name in selects]
        programs.append(extend_program(programs[-1], more, MARKET_RELATIONS))
    sources: dict[str, None] = {KERNEL_SOURCE: None, RESULT_KERNEL_SOURCE: None}
    for program in programs:
        sources |= dict.fromkeys([*sources_of(program, "relations"), *sources_of(program, "payloads")])
    return ShippedSources(list(sources), skipped)


def _and_more(others: int) -> str:
    return f"and {others} more stay interpreted" if others else "stays interpreted"


@click.command("kernels")
@click.pass_context
def kernels_command(context: click.Context) -> None:
    """Compile the shipped queries to machine code.

    Views work without this: a kernel is interpreted until a compiled one is in the cache. The set-up runs this command,
    so that the shipped queries are compiled from their first epoch. The exit code is 1 if a kernel cannot be compiled
    or a file cannot be read, except with DELTABOOK_NATIVE=off.
    """
    from runtime.native.cache import is_switched_on, kernels_from_environment

    kernels = kernels_from_environment(is_foreground=True)
    if not is_switched_on(os.environ):
        click.echo(f"compiled no kernels, they are interpreted: {kernels.status().reason}")
        return
    try:
        kernels.create_folder()
    except (ImportError, OSError) as error:
        raise click.ClickException(f"compiled no kernels, they are interpreted: {error}") from error
    shipped = shipped_sources()
    try:
        with progress("compiling kernels"):
            report = kernels.compile_now(shipped.sources)
    finally:
        kernels.close()
    click.echo(
        f"compiled {report.count} kernels in {report.seconds:.1f} s, {report.present} were cached, "
        f"cache contains {report.size_bytes / _MIB:.1f} MiB in {kernels.folder}"
    )
    names: dict[str, list[str]] = {}
    for name, why in report.failures.items():
        names.setdefault(why, []).append(name)
    for why, same in names.items():
        click.echo(f"kernel {same[0]} {_and_more(len(same) - 1)}: {why}", err=True)
    for why in shipped.skipped:
        click.echo(f"skipped: {why}", err=True)
    context.exit(1 if report.failures or shipped.skipped else 0)


@click.command("classes")
def classes_command() -> None:
    """Archive the classes that Spark's Java loads.

    The command runs a small view on Spark and stores the classes that its Java has loaded in the virtual environment,
    about 170 MB, with which Spark starts some seconds faster. The set-up runs this command; an existing archive is
    kept.
    """
    check_requirements()
    from runtime.service.lanes.spark_classes import make_archive

    begun_s = time.monotonic()
    with progress("archiving the classes of Spark"):
        path, is_new = make_archive()
    done = f"archived in {time.monotonic() - begun_s:.0f} s" if is_new else "exist"
    click.echo(f"classes of Spark {done}: {path.stat().st_size / _MIB:.0f} MiB in {path}")
