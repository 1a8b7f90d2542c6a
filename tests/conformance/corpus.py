"""The corpus: queries in ``queries/**/*.sql``, each under a comment line with its name.

::

    -- name: inner_one_key
    -- mode: sql | dbtoaster | both      (sql where it is left out)
    -- class: multilinear               (what the compiler must make of it)
    SELECT …;

``python -m tests.conformance.corpus --write`` puts the classes in that the compiler gives now.
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
    """``folder.file.name``, with ``.dbtoaster`` where that is the mode."""
    sql: str
    """Without the semicolon."""
    mode: Mode
    """What SUM of nothing is."""
    view_class: str
    """Expected; empty where it is not said."""

    @property
    def question(self) -> Question:
        """For the harness."""
        return Question({"view": self.sql}, self.mode)


@cache
def cases() -> dict[str, Case]:
    """The corpus by name; raises `ValueError` for a file that is not written as it should be."""
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
    """Put the present class above every query."""
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
