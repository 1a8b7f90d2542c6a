"""Docstrings name modules and classes that are there: a reader who follows a reference finds something."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("algo_engine", "deltabook", "exchange_server", "runtime")
REFERENCE = re.compile(r"`((?:[a-z_][a-z_0-9]*\.)+[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*)\b")
"""A class under its module, as in `epochs.log.EpochLog`; packages may stand before, and a method behind."""


@cache
def definitions() -> tuple[frozenset[str], frozenset[str]]:
    """Return the parts of all modules' names, and each definition under its module's name and under every end of that.

    A reference that begins with another part is to a library.
    """
    parts: set[str] = set()
    names: set[str] = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            module = [part for part in path.relative_to(ROOT).with_suffix("").parts if part != "__init__"]
            parts.update(module)
            for name in _names_of(path):
                names.update(".".join([*module[first:], name]) for first in range(len(module)))
    return frozenset(parts), frozenset(names)


def _names_of(path: Path) -> set[str]:
    """Return the names that a module defines or imports."""
    names: set[str] = set()
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names.update(each.asname or each.name for each in node.names)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names


@pytest.mark.parametrize("package", PACKAGES)
def test_a_class_that_a_docstring_names_exists(package: str) -> None:
    """A class that moved to another module shows here."""
    parts, names = definitions()
    missing = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for name in REFERENCE.findall(path.read_text(encoding="utf-8"))
        if name.split(".")[0] in parts and name not in names
    ]
    assert not missing
