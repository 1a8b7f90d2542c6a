"""Production code is what a console command or a documented public name can reach: nothing is kept for tests alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from sortedcontainers import SortedDict, SortedSet

from algo_engine.loader import BUILT_IN
from deltabook.cli import COMMANDS
from tests.harness.reachability import SourceTree

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("algo_engine", "deltabook", "exchange_server", "queries", "runtime")

CODECS: Final = ("itch", "mold", "ouch42", "ouch5", "results", "soupbin", "text")
"""Modules of `deltabook.wire` that docs/wire.md and docs/ouch.md offer to clients, in both directions."""
PRIMITIVES: Final = ("runtime.native.machine", "runtime.native.plain")
"""What the sources of kernels call by name, compiled and interpreted."""
CALLED_BY_TWISTED: Final = ("makeConnection",)
"""Functions of a channel, which no base class declares for those that have them."""
SEAMS: Final = {
    "runtime.engine.queue.TaskQueue.next_deadline_s": "tests advance their clock up to it",
    "runtime.engine.queue.TaskQueue.take_now": "a stepper runs one task at a time by a seed",
}
"""Members that only tests call, and why they cannot do without."""
PERSISTED: Final = "runtime.state.objects"
"""Containers with all of the functions of `set`, `dict` and those of sortedcontainers (docs/engine.md)."""
COUNTERPARTS: Final = frozenset({*dir(dict), *dir(set), *dir(SortedDict), *dir(SortedSet)})


def documented() -> Iterator[tuple[str, str, set[str]]]:
    """Modules and names that examples in the documentation import, with all identifiers of the example."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            tree = ast.parse(block.replace(">>> ", "").replace("... ", ""))
            names = set(re.findall(r"[A-Za-z_]\w*", block))
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom):
                    yield from ((node.module or "", alias.name, names) for alias in node.names)
                elif isinstance(node, ast.Import):
                    yield from ((alias.name, "", names) for alias in node.names)
                elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    # Of a name that is no module this is nowhere to be found.
                    yield node.value.id, node.attr, names


def mentioned() -> Iterator[str]:
    """Code in the sentences of the documentation."""
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        yield from re.findall(r"`([^`\n/]+)`", page.read_text(encoding="utf-8"))


def production() -> SourceTree:
    """Everything that is installed, followed from all that may start it."""
    tree = SourceTree(ROOT, PACKAGES)
    for place in ("deltabook.__main__", "deltabook.__version__", "deltabook.cli.main"):
        assert tree.reach(place)
    for place, _ in COMMANDS.values():
        assert tree.reach(f"deltabook.cli.{place}")
    for module, name, names in documented():
        tree.reach(f"{module}.{name}" if name else module)
        tree.mention(names)
    for code in mentioned():
        tree.reach(code)
        tree.mention(re.findall(r"[A-Za-z_]\w*", code))
    for module in (*(f"deltabook.wire.{name}" for name in CODECS), *PRIMITIVES, *BUILT_IN.values()):
        tree.reach_all(module)
    tree.mention(CALLED_BY_TWISTED)
    tree.follow()
    return tree


@pytest.fixture(scope="module")
def tree() -> SourceTree:
    return production()


def test_every_module_is_reached(tree: SourceTree) -> None:
    """A module that no command and no documented name uses is not production code."""
    assert len(tree.reached_modules) > 500
    assert tree.unreached_modules() == []


def test_every_definition_is_reached(tree: SourceTree) -> None:
    """A function, class or constant that only tests use is not production code."""
    found = [
        str(each)
        for each in tree.unreached()
        if not (each.module.name.startswith(PERSISTED) and each.name.rpartition(".")[2] in COUNTERPARTS)
    ]
    assert sorted(found) == sorted(SEAMS)


def of(tmp_path: Path, **sources: str) -> SourceTree:
    """A tree of one package with these modules."""
    package = tmp_path / "shop"
    package.mkdir()
    for name, source in sources.items():
        (package / f"{name}.py").write_text(source, encoding="utf-8")
    return SourceTree(tmp_path, ("shop",))


def test_a_reexport_alone_reaches_nothing(tmp_path: Path) -> None:
    """Names are followed through a package's own file to where they are defined, and no further."""
    tree = of(
        tmp_path,
        __init__="from shop.sold import sell\nfrom shop.stored import store\n",
        sold="def sell():\n    return _price()\ndef _price():\n    return 1\n",
        stored="def store(): ...\n",
        till="def run():\n    from shop import sell\n    sell()\n",
    )
    assert tree.reach("shop.till.run")
    tree.follow()
    assert tree.unreached_modules() == ["shop.stored"]
    assert [str(each) for each in tree.unreached()] == ["shop.stored.store"]


def test_texts_reach_modules_and_attributes(tmp_path: Path) -> None:
    """A registry names what it loads in texts; a docstring names it in vain."""
    tree = of(
        tmp_path,
        till='KINDS = {"a": "shop.sold:sell", "b": "shop.worker"}\n',
        sold="def sell(): ...\ndef lend():\n    'shop.stored'\n",
        stored="def store(): ...\n",
        worker="if __name__ == '__main__':\n    print(lambda: help_worker())\ndef help_worker(): ...\n",
    )
    tree.reach("shop.till.KINDS")
    tree.follow()
    assert tree.unreached_modules() == ["shop.stored"]
    assert [str(each) for each in tree.unreached()] == ["shop.sold.lend", "shop.stored.store"]
