"""Rules of imports: the packages meet on wires, in the runtime imports point downwards, and no circle is anywhere."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("algo_engine", "deltabook", "exchange_server", "runtime")
RUNTIME_RANKS = {
    "service": 3,
    "engine": 2,
    "spark": 2,
    "relations": 1,
    "sources": 1,
    "tuples": 1,
    "upstreams": 1,
    "views": 1,
    "client": 0,
    "plan": -1,
    "compiler": 0,
    "epochs": 0,
    "formats": 0,
    "native": 0,
    "state": 0,
}
"""A package of the runtime imports only itself and packages of a lower rank."""
JAVA = "runtime.spark.java"
"""Finds a Java with the standard library alone: set-up and the doctor use it before Spark is there."""

MARKET = "exchange_server.matching"


def modules() -> list[tuple[str, Path]]:
    """Name and file of every module that is installed."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return [(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), path) for path in paths]


@cache
def imported(name: str, path: Path) -> tuple[str, ...]:
    """Every module of ours that the module imports, wherever the import stands."""
    targets: list[str] = []
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join([*package.split(".")[: len(package.split(".")) - node.level + 1]]) if node.level else ""
            module = ".".join(part for part in (base, node.module or "") if part)
            found = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        targets += [each for each in found if each.split(".")[0] in PACKAGES]
    return tuple(targets)


def import_graph() -> dict[str, set[str]]:
    """The modules that each module imports: those of `if TYPE_CHECKING` and of functions as well.

    What a reader must read together is the same, whenever the import runs.
    """
    paths = dict(modules())
    graph: dict[str, set[str]] = {}
    for name, path in paths.items():
        targets = graph[name] = set()
        for target in imported(name, path):
            module = target if target in paths else target.rpartition(".")[0]
            if module in paths and module != name:
                targets.add(module)
    return graph


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of two modules and more, by Tarjan's algorithm."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = lowest[name] = len(order)
        stack.append(name)
        for target in sorted(graph[name]):
            if target not in order:
                visit(target)
                lowest[name] = min(lowest[name], lowest[target])
            elif target in stack:
                lowest[name] = min(lowest[name], order[target])
        if lowest[name] == order[name]:
            place = stack.index(name)
            component = sorted(stack[place:])
            del stack[place:]
            if len(component) > 1:
                components.append(component)

    for name in graph:
        if name not in order:
            visit(name)
    return components


def is_within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def broken_rule(name: str, target: str) -> str | None:
    """The rule that an import of `target` by `name` breaks."""
    own, other = (each.split(".", maxsplit=1)[0] for each in (name, target))
    if is_within(name, "deltabook.wire"):
        is_own = is_within(target, "deltabook.wire") or target == "deltabook.__version__"
        return None if is_own else "deltabook.wire imports none of the other packages"
    if own == "deltabook" or is_within(target, "deltabook.wire"):
        return None
    if own != other:
        return f"{own} imports nothing of {other}: they meet on wires, whose messages are in deltabook.wire"
    if is_within(name, MARKET) and not is_within(target, MARKET):
        return "the market is pure: it imports nothing of the exchange around it"
    if own == "runtime":
        return broken_rank(name, target)
    return None


def broken_rank(name: str, target: str) -> str | None:
    parts, others = name.split("."), target.split(".")
    own, other = (each[1] if len(each) > 1 else "" for each in (parts, others))
    if own in {other, ""}:
        return None
    if own not in RUNTIME_RANKS or other not in RUNTIME_RANKS:
        return f"expected packages with a rank, were {own} and {other}"
    if RUNTIME_RANKS[other] >= RUNTIME_RANKS[own]:
        return f"runtime.{other} is not below runtime.{own}"
    return None


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_keep_the_rules(package: str) -> None:
    broken = [
        f"{path.relative_to(ROOT)} imports {target}: {rule}"
        for name, path in modules()
        if is_within(name, package)
        for target in imported(name, path)
        if (rule := broken_rule(name, target)) is not None
    ]
    assert broken == []


def test_no_circle_of_imports_is_anywhere() -> None:
    assert circles(import_graph()) == []


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"a"}, "c": {"a"}}, [["a", "b"]]),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"e", "a"}, "e": {"d"}}, [["a", "b", "c"], ["d", "e"]]),
    ],
)
def test_circles_are_found(graph: Mapping[str, set[str]], expected: list[list[str]]) -> None:
    assert circles(graph) == expected


def test_finding_a_java_imports_the_installation_terms_alone() -> None:
    """Set-up runs it before anything else of the project."""
    path = ROOT / "runtime" / "spark" / "java.py"
    words = "deltabook.wire.advice"
    assert list(imported(JAVA, path)) == [f"{words}.install_command"]
    assert list(imported(words, ROOT / "deltabook" / "wire" / "advice.py")) == []


@pytest.mark.parametrize(
    ("name", "target", "is_broken"),
    [
        ("exchange_server.matching.book", "runtime.state", True),
        ("exchange_server.matching.book", "deltabook.demo", True),
        ("exchange_server.matching.book", "deltabook.wire.text", False),
        ("exchange_server.matching.book", "exchange_server.matching.order", False),
        ("exchange_server.matching.book", "exchange_server.day", True),
        ("exchange_server.exchange", "exchange_server.matching", False),
        ("algo_engine.desk.desk", "exchange_server.matching.book", True),
        ("runtime.engine.ingest", "deltabook.cli", True),
        ("runtime.formats.csv", "runtime.engine", True),
        ("runtime.engine.ingest", "runtime.spark", True),
        ("runtime.spark.lane", "runtime.views", False),
        ("runtime.views.shard", "runtime.plan", False),
        ("runtime.views.code", "runtime.native.tiers", False),
        ("runtime.native.tiers", "runtime.state", True),
        ("deltabook.demo.plan", "runtime.spark.java", False),
        ("deltabook.wire.text", "deltabook.demo", True),
    ],
)
def test_the_rules_tell_right_from_wrong(name: str, target: str, is_broken: bool) -> None:
    assert (broken_rule(name, target) is not None) == is_broken
