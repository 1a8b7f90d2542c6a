"""Sources of the kernels of views: they are compiled before the first row arrives, and `explain --code` shows them."""

from __future__ import annotations

from typing import Final

from runtime.plan import Program, only_view
from runtime.views.routing import payload_sources, views_of_shard
from runtime.views.shard import Inputs, ShardState

__all__ = ["kernel_code", "sources_of"]

_LEGEND: Final = """\
# `step` is compiled to machine code. `address` is the address of a table of arrays and tables; `array(p, n)` and
# `table(p, n)` return its n-th entry. `step` returns 0 if it is done; n > 0 if it must be called again after the n-th
# of the structures that may be full has been enlarged; -1 if the view fails because a value has passed its limit.
# `wide(x)` is x in 128 bits, `narrow(x)` the low 64 bits of x; `load_wide` and `store_wide` access two cells.
# `locate(t)` returns the slot of a key, which it adds if it is missing; `touch(t, slot)` saves the values that a slot
# had before its first change in this batch.
"""


def kernel_code(program: Program, name: str) -> str:
    """Return the source of the kernels that update a view from deltas of its relations, in the order in which they run.

    Raises `KeyError` if the program has no view of this name.
    """
    alone, _ = only_view(program, name)
    state = ShardState(alone, inputs="relations")
    if state.failed:
        return f"# no kernels: {state.failed[name]}\n"
    parts = []
    for number, source in enumerate(state.sources(), 1):
        docstring, _, text = source.removeprefix('"""').partition('"""')
        title = docstring.split("\n")[0].removeprefix("Generated: ").removesuffix(".")
        body = text[text.index("\n@jit") :].strip("\n") if "\n@jit" in text else text
        parts.append(f"# kernel {number}: {title[:1].lower()}{title[1:]}\n{body}\n")
    return "\n\n".join([_LEGEND, *parts]) if parts else "# no kernels: DuckDB recomputes the view\n"


def sources_of(program: Program, inputs: Inputs, shards: int = 1) -> list[str]:
    """Return the kernel sources of all shards of a program and of its preaggregation, without duplicates."""
    sources: dict[str, None] = {}
    layouts = set()
    for shard in range(shards):
        layout = tuple(view.name for view in views_of_shard(program, shard, shards))
        if layout not in layouts:
            layouts.add(layout)
            sources |= dict.fromkeys(ShardState(program, shard, shards, inputs=inputs).sources())
    if inputs == "payloads":
        sources |= dict.fromkeys(payload_sources(program))
    return list(sources)
