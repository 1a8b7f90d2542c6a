"""What the packages offer: every name is there, and none comes or goes unnoticed.

After a change that is meant: ``python tests/unit/test_exports.py > tests/unit/exports.txt``.
"""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("algo_engine", "deltabook", "exchange_server", "queries", "runtime")
PINNED = Path(__file__).with_name("exports.txt")
EXTRAS = {"deltabook.gym": "gymnasium"}
"""Packages that need an extra: what it installs."""
MODULES = (
    "algo_engine.status",
    "deltabook.audit",
    "deltabook.facts",
    "deltabook.gym",
    "deltabook.notebook",
    "exchange_server.logins",
    "runtime.engine.operators.aggregation",
    "runtime.service.asking",
    "runtime.service.at_epochs",
    "runtime.service.catalogue",
    "runtime.service.health.metrics",
    "runtime.state.stores",
)
"""Modules that offer a whole part of the product, as a package does."""


def packages() -> list[str]:
    """Every package with a list of what it offers, and `MODULES`."""
    found = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("__init__.py"))]
    return [*(".".join(path.parent.relative_to(ROOT).parts) for path in found if offered(path)), *MODULES]


def offered(path: Path) -> list[str]:
    """The names in ``__all__`` as the file says them."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return [str(name) for name in ast.literal_eval(node.value)]
    return []


def surface() -> str:
    """A line for each name."""
    names = [f"{package}.{name}" for package in packages() for name in offered(init(package))]
    return "".join(f"{name}\n" for name in sorted(names))


def init(package: str) -> Path:
    path = ROOT.joinpath(*package.split("."))
    return path.with_suffix(".py") if package in MODULES else path / "__init__.py"


@pytest.mark.parametrize("package", packages())
def test_every_name_offered_is_there(package: str) -> None:
    if package in EXTRAS:
        pytest.importorskip(EXTRAS[package])
    module = importlib.import_module(package)
    assert [name for name in offered(init(package)) if not hasattr(module, name)] == []


@pytest.mark.parametrize("package", packages())
def test_a_package_says_what_it_is(package: str) -> None:
    docstring = ast.get_docstring(ast.parse(init(package).read_text(encoding="utf-8")))
    assert docstring


def test_the_public_surface_is_the_one_written_down() -> None:
    assert surface().splitlines() == PINNED.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    sys.stdout.write(surface())
