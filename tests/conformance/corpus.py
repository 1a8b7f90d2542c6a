"""Corpus: queries in ``queries/**/*.sql``, each below a comment line with its name.

::

    -- name: inner_one_key
    -- mode: sql | dbtoaster | both     (sql by default)
    -- class: multilinear               (expected class of the view)
    SELECT …;

``python -m tests.conformance.corpus --write`` writes the present classes of the compiler into the files.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.conformance.harness import Mode, Question, compiled

__all__ = ["QUERIES_DIR", "Case", "cases"]

QUERIES_DIR = Path(__file__).parent / "queries"
_HEAD = re.compile(r"-- (name|mode|class): (.*)")


@dataclass(frozen=True)
class Case:
    """One query of the corpus in one mode."""

    name: str
    """Name: ``folder.file.name``, with ``.dbtoaster`` in that mode."""
    sql: str
    """SQL without the semicolon."""
    mode: Mode
    """Mode of the compiler, which determines SUM over no rows."""
    view_class: str
    """Expected class of the view; empty if the file states none."""

    @property
    def question(self) -> Question:
        """Question for the harness."""
        return Question({"view": self.sql}, self.mode)


@cache
def cases() -> dict[str, Case]:
    """Return the corpus by name; raise `ValueError` for a malformed file."""
    found: dict[str, Case] = {}
    for path in sorted(QUERIES_DIR.rglob("*.sql")):
        for heads, sql in _statements(path):
            if "name" not in heads:
                raise ValueError(f"expected a line '-- name: …' in {path} above {sql[:60]!r}")
            modes = {"both": ("sql", "dbtoaster")}.get(heads.get("mode", "sql"), (heads.get("mode", "sql"),))
            for mode in modes:
                name = f"{_prefix(path)}.{heads['name']}" + (".dbtoaster" if mode == "dbtoaster" else "")
                if name in found:
                    raise ValueError(f"expected names once each, was {name} again")
                found[name] = Case(name, sql, mode, heads.get("class", ""))  # type: ignore[arg-type]  # checked below
                assert mode in ("sql", "dbtoaster"), f"{name}: {mode}"
    return found


def _prefix(path: Path) -> str:
    return ".".join(path.relative_to(QUERIES_DIR).with_suffix("").parts)


def _statements(path: Path) -> list[tuple[dict[str, str], str]]:
    done = []
    for block in path.read_text(encoding="utf-8").split(";\n"):
        lines = block.strip().splitlines()
        heads = {match[1]: match[2].strip() for line in lines if (match := _HEAD.fullmatch(line))}
        sql = "\n".join(line for line in lines if not line.startswith("--"))
        if sql:
            done.append((heads, sql))
    return done


def _write() -> None:
    """Write the present class above every query."""
    for path in sorted(QUERIES_DIR.rglob("*.sql")):
        blocks = []
        for block in path.read_text(encoding="utf-8").split(";\n"):
            lines = [line for line in block.splitlines() if not line.startswith("-- class:")]
            place = next((at for at, line in enumerate(lines) if line.startswith("-- name:")), None)
            if place is not None:
                name = lines[place].removeprefix("-- name:").strip()
                case = cases().get(f"{_prefix(path)}.{name}") or cases()[f"{_prefix(path)}.{name}.dbtoaster"]
                lines.insert(place + 1, f"-- class: {compiled(case.question).views[0].view_class}")
            blocks.append("\n".join(lines))
        path.write_text(";\n".join(blocks) + ("" if blocks[-1].endswith("\n") or not blocks[-1] else "\n"), "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Rewrite the classes that the corpus expects.")
    parser.add_argument("--write", action="store_true", required=True)
    parser.parse_args()
    _write()
