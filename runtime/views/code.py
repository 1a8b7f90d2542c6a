"""The generated kernels of a view, for people: what `explain --code` shows."""

from __future__ import annotations

from runtime.compiler import only_view
from runtime.plan import Program
from runtime.views.shard import ShardState

__all__ = ["kernel_code"]


def kernel_code(program: Program, name: str) -> str:
    """Return the source of the kernels that keep a view from the deltas of its relations, in their order.

    Raises `KeyError` for a view that is not there.
    """
    alone, _ = only_view(program, name)
    state = ShardState(alone, inputs="relations")
    if state.failed:
        return f"# no kernels: {state.failed[name]}\n"
    parts = []
    for number, source in enumerate(state.sources(), 1):
        title, _, text = source.partition('."""')
        body = text[text.index("\n@jit") :].strip("\n") if "\n@jit" in text else text
        parts.append(f"# kernel {number}: {title.removeprefix(chr(34) * 3 + 'Generated: ')}\n{body}\n")
    return "\n\n".join(parts) or "# no kernels: DuckDB recomputes the view\n"
