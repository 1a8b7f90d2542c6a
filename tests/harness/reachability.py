"""Analysis of the production code that a console command or a documented public name can reach, from the source alone.

```
roots ──▶ definitions ──names, attributes, texts──▶ definitions …
          a name    the definition of that name in the module, or what its import leads to, through re-exports
          .member   every function of that name in a class that is reached
          a text    modules ("pkg.module"), attributes of them ("pkg.module:name"), and names in generated code
```

An import alone reaches nothing; the use of the imported name does. So a re-export in an `__init__` is not a use of the
definition. A function of a class counts as reached when the class and the function's name are reached. It also counts
if a base class from another project declares the function, because that project's code calls it.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from zope.interface.interface import InterfaceClass

__all__ = ["Definition", "SourceModule", "SourceTree"]

_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_PLACE: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*(?::[A-Za-z_]\w*)?")
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(slots=True, eq=False)
class Definition:
    """Name that a module or a class defines."""

    module: SourceModule
    """Module of the definition."""
    name: str
    """Name within the module; a member's has its class before a dot."""
    nodes: list[ast.AST]
    """Nodes that are evaluated when the name is used."""
    members: dict[str, Definition] = field(default_factory=dict)
    """Functions and properties of a class."""
    line: int = 0
    """First line in the file."""
    last_line: int = 0
    """Last line in the file."""

    def __str__(self) -> str:
        return f"{self.module.name}.{self.name}"


@dataclass(slots=True, eq=False)
class SourceModule:
    """One file: its definitions, the names of its imports, and the code that runs when it is imported."""

    name: str
    """Dotted name, with its packages."""
    path: Path
    """Path of the file."""
    definitions: dict[str, Definition] = field(default_factory=dict)
    """Definitions by name."""
    imports: dict[str, str] = field(default_factory=dict)
    """Local name → dotted name of what is imported."""
    body: list[ast.AST] = field(default_factory=list)
    """Statements that define nothing."""


class SourceTree:
    """Production packages below a folder."""

    def __init__(self, root: Path, packages: Iterable[str]) -> None:
        self.modules: dict[str, SourceModule] = {}
        """Modules by name."""
        self.reached_modules: set[str] = set()
        """Names of the modules that run."""
        self.reached: set[Definition] = set()
        """Definitions that are used."""
        self._mentioned: set[str] = set()
        self._classes: list[Definition] = []
        self._pending: list[tuple[SourceModule, ast.AST]] = []
        self._generated: dict[str, list[Definition]] = {}
        for package in packages:
            for path in sorted((root / package).rglob("*.py")):
                name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
                self.modules[name] = _parsed(name, path)
        for module in self.modules.values():
            if module.name.startswith("runtime.native.library"):
                for definition in module.definitions.values():
                    self._generated.setdefault(definition.name, []).append(definition)

    def reach(self, place: str) -> bool:
        """Reach a module (``a.b``) or a name in one (``a.b.c`` or ``a.b:c``); return False if there is none."""
        place = place.replace(":", ".")
        definition = self._resolve(place)
        if definition is not None:
            self._reach_definition(definition)
        elif place in self.modules:
            self._reach_module(self.modules[place])
        return definition is not None or place in self.modules

    def reach_all(self, name: str) -> None:
        """Reach all definitions of a module, such as one that is read as text or searched for a plug-in."""
        self._reach_module(self.modules[name])
        for definition in self.modules[name].definitions.values():
            self._reach_definition(definition)

    def mention(self, names: Iterable[str]) -> None:
        """Mark members of these names as used."""
        for name in names:
            self._mention(name)

    def follow(self) -> None:
        """Follow the reached definitions until no new one is found."""
        while self._pending:
            module, node = self._pending.pop()
            self._visit(module, node)

    def unreached_modules(self) -> list[str]:
        """Return the modules without used code; files of packages contain re-exports only."""
        return [
            name
            for name, module in self.modules.items()
            if name not in self.reached_modules and module.path.name != "__init__.py"
        ]

    def unreached(self) -> list[Definition]:
        """Return the unused definitions, without the members of an unused class."""
        found = []
        for module in self.modules.values():
            for definition in module.definitions.values():
                if _is_exempt(definition.name):
                    continue
                if definition not in self.reached:
                    found.append(definition)
                    continue
                found += [member for member in definition.members.values() if member not in self.reached]
        return found

    def _reach_module(self, module: SourceModule) -> None:
        if module.name not in self.reached_modules:
            self.reached_modules.add(module.name)
            self._pending += [(module, node) for node in module.body]

    def _reach_definition(self, definition: Definition) -> None:
        if definition in self.reached:
            return
        self.reached.add(definition)
        self._reach_module(definition.module)
        self._pending += [(definition.module, node) for node in definition.nodes]
        if definition.members:
            self._classes.append(definition)
            foreign = self._foreign_names(definition)
            for name, member in definition.members.items():
                if _is_exempt(name) or name in self._mentioned or name in foreign:
                    self._reach_definition(member)

    def _foreign_names(self, definition: Definition) -> set[str]:
        """Return the members that bases and interfaces from other projects declare."""
        names: set[str] = set()
        bases = [each for node in definition.nodes if isinstance(node, ast.expr) for each in ast.walk(node)]
        for base in bases:
            dotted = (
                base.id if isinstance(base, ast.Name) else _dotted(base) if isinstance(base, ast.Attribute) else None
            )
            first, dot, rest = (dotted or "").partition(".")
            own = definition.module.definitions.get(first)
            place = definition.module.imports.get(first, first) + dot + rest
            own = own or self._resolve(place)
            names |= _declared(place) if own is None else self._foreign_names(own)
        return names

    def _mention(self, name: str) -> None:
        if name not in self._mentioned:
            self._mentioned.add(name)
            for definition in list(self._classes):
                if name in definition.members:
                    self._reach_definition(definition.members[name])

    def _resolve(self, place: str) -> Definition | None:
        """Return the definition of a dotted name, through re-exports."""
        seen = set()
        while place not in seen:
            seen.add(place)
            holder, _, name = place.rpartition(".")
            module = self.modules.get(holder)
            if module is None:
                return None
            if name in module.definitions:
                return module.definitions[name]
            if name not in module.imports:
                return None
            place = module.imports[name]
        return None

    def _visit(self, module: SourceModule, top: ast.AST) -> None:
        local: dict[str, str] = {}
        for node in ast.walk(top):
            if isinstance(node, ast.Import | ast.ImportFrom):
                local.update(_imported(module, node))
                if isinstance(node, ast.Import):
                    for alias in node.names:
                        self.reach(alias.name)
        texts = _docstrings(top)
        for node in ast.walk(top):
            if isinstance(node, ast.Name):
                self._use(module, local, node.id)
            elif isinstance(node, ast.Attribute):
                self._mention(node.attr)
                dotted = _dotted(node)
                if dotted is not None:
                    first, _, rest = dotted.partition(".")
                    base = local.get(first, module.imports.get(first))
                    if base is not None:
                        self.reach(f"{base}.{rest}")
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
                self._read(node.value)
            elif isinstance(node, ast.keyword) and node.arg is not None:
                self._mention(node.arg)
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "inspect.getsource":
                self.reach_all(module.imports[ast.unparse(node.args[0])])

    def _use(self, module: SourceModule, local: dict[str, str], name: str) -> None:
        if name in local:
            self.reach(local[name])
        elif name in module.definitions:
            self._reach_definition(module.definitions[name])
        elif name in module.imports:
            self.reach(module.imports[name])

    def _read(self, text: str) -> None:
        """Reach the names in a text: a module or an attribute, or names in generated code."""
        if _PLACE.fullmatch(text) is not None:
            self.reach(text)
            self.reach(f"deltabook.cli.{text}")
            self._mention(text)
        for name in _NAME.findall(text):
            for definition in self._generated.get(name, ()):
                self._reach_definition(definition)


def _parsed(name: str, path: Path) -> SourceModule:
    module = SourceModule(name, path)
    for node in _statements(ast.parse(path.read_text(encoding="utf-8")).body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module.imports.update(_imported(module, node))
            if isinstance(node, ast.Import):
                module.body.append(node)
        elif isinstance(node, ast.ClassDef):
            module.definitions[node.name] = _class(module, node)
        elif isinstance(node, _FUNCTIONS):
            _define(module, node.name, node)
            # Python itself calls a module's `__getattr__`.
            if _is_registered(module, node) or _is_exempt(node.name):
                module.body.append(ast.Name(node.name, ast.Load()))
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
            for each in names:
                _define(module, each, node)
        else:
            module.body.append(node)
    return module


def _define(module: SourceModule, name: str, node: ast.stmt) -> None:
    known = module.definitions.setdefault(name, Definition(module, name, [], line=node.lineno))
    known.nodes.append(node)
    known.last_line = node.end_lineno or node.lineno


def _class(module: SourceModule, node: ast.ClassDef) -> Definition:
    members: dict[str, Definition] = {}
    rest: list[ast.AST] = [*node.decorator_list, *node.bases, *node.keywords]
    for each in node.body:
        if isinstance(each, _FUNCTIONS):
            member = members.setdefault(each.name, Definition(module, f"{node.name}.{each.name}", [], line=each.lineno))
            member.nodes.append(each)
            member.last_line = each.end_lineno or each.lineno
        else:
            rest.append(each)
    return Definition(module, node.name, rest, members, node.lineno, node.end_lineno or node.lineno)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module, including those below an `if` or a `try`."""
    for node in body:
        if isinstance(node, ast.If):
            yield ast.Expr(node.test)
            yield from _statements(node.body + node.orelse)
        elif isinstance(node, ast.Try):
            yield from _statements(node.body + node.orelse + node.finalbody)
            for handler in node.handlers:
                yield from _statements(handler.body)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        else:
            yield node


def _imported(module: SourceModule, node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    if isinstance(node, ast.Import):
        return {
            alias.asname or alias.name.split(".")[0]: alias.name if alias.asname else alias.name.split(".")[0]
            for alias in node.names
        }
    return {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}


def _is_registered(module: SourceModule, node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True if a decorator is a method of an object in the module, such as a group of commands."""
    for decorator in node.decorator_list:
        place = decorator.func if isinstance(decorator, ast.Call) else decorator
        if isinstance(place, ast.Attribute) and isinstance(place.value, ast.Name):
            return place.value.id in module.definitions
    return False


def _dotted(node: ast.Name | ast.Attribute) -> str | None:
    parts: list[str] = []
    value: ast.expr = node
    while isinstance(value, ast.Attribute):
        parts.append(value.attr)
        value = value.value
    return ".".join([value.id, *reversed(parts)]) if isinstance(value, ast.Name) else None


def _docstrings(top: ast.AST) -> set[int]:
    """Return the ids of texts that stand alone: documentation."""
    return {
        id(node.value) for node in ast.walk(top) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def _declared(place: str) -> set[str]:
    """Return the names that a class or an interface of another project declares: that project's code calls them."""
    module, _, name = place.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError):
        return set()
    return set(found.names(all=True)) if isinstance(found, InterfaceClass) else set(dir(found)) - set(dir(object))


def _is_exempt(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")
