"""`deltabook kernels`: compile the kernels of the shipped queries in advance."""

from __future__ import annotations

from typing import Final

import click

__all__ = ["command"]

_MIB: Final = 1024 * 1024


def shipped_sources() -> list[str]:
    """Return the kernel sources of the shipped queries, each alone and the demo's together, in both lanes; and that of
    order books."""
    from deltabook.demo.plan import EXPRESS, VIEWS
    from queries import QUERIES_DIR
    from runtime.compiler import MARKET_RELATIONS, compile_program, read_script
    from runtime.relations import KERNEL_SOURCE
    from runtime.views.warm import sources_of

    scripts = [read_script(path) for path in sorted(QUERIES_DIR.glob("*.sql"))]
    programs = [compile_program(s.selects, s.relations or MARKET_RELATIONS) for s in scripts if s.selects]
    selects = {select.name: select for script in scripts for select in script.selects}
    for together in (EXPRESS, [view for view in VIEWS if view not in EXPRESS]):
        programs += [compile_program([selects[name] for name in sorted(together)], MARKET_RELATIONS)]
    found: dict[str, None] = {KERNEL_SOURCE: None}
    for program in programs:
        found |= dict.fromkeys([*sources_of(program, "relations"), *sources_of(program, "payloads")])
    return list(found)


@click.command("kernels")
@click.pass_context
def command(context: click.Context) -> None:
    """Compile the shipped queries to machine code.

    Every view answers without this: its kernel is interpreted until a compiled one is in the cache. Set-up runs this
    command, so that the shipped queries are compiled from their first epoch. Exits with 1 if a kernel cannot be
    compiled.
    """
    from runtime.native.cache import kernels_from_environment

    kernels = kernels_from_environment()
    if reason := kernels.status().reason:
        click.echo(f"compiled no kernels, they are interpreted: {reason}")
        return
    try:
        report = kernels.compile_now(shipped_sources())
    finally:
        kernels.close()
    click.echo(
        f"compiled {report.count} kernels in {report.seconds:.1f} s, "
        f"cache holds {report.size_bytes / _MIB:.1f} MB in {kernels.folder}"
    )
    for name, why in report.failures.items():
        click.echo(f"kernel {name} stays interpreted: {why}", err=True)
    context.exit(1 if report.failures else 0)
