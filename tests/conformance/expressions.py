"""Random expressions that are well typed by construction, as text."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from runtime.compiler import Column

__all__ = ["Expressions", "Field", "Kind", "field_of"]

Kind = Literal["int", "decimal", "float", "string", "bool", "date", "timestamp", "approx"]
"""Kind of an expression; ``approx`` is one that a division or a root rounds: selected, never compared or grouped."""


@dataclass(frozen=True)
class Field:
    """A column in scope."""

    sql: str
    """Name of the column in SQL."""
    kind: Kind
    """Kind of the column."""


def field_of(alias: str, column: Column) -> Field:
    """Return a relation's column under an alias as a field."""
    kinds: dict[str, Kind] = {"int64": "decimal" if column.scale else "int", "float64": "float"}
    return Field(f"{alias}.{column.name}", kinds.get(column.type) or column.type)  # type: ignore[arg-type]  # the other names are the same


_STRINGS = ("'web'", "'shop'", "'a'", "'Bonn'", "'tea'", "''")
_PATTERNS = ("'web%'", "'%e%'", "'_b'", "'%\\%%'", "'A%'", "'%'")
_DATES = ("DATE '2024-02-28'", "DATE '2024-02-27'", "DATE '2024-04-02'")
_TIMES = ("TIMESTAMP '2024-02-27 00:00:01'", "TIMESTAMP '2024-02-28 01:00:00'")


class Expressions:
    """Makes expressions over fields; one random generator makes all choices."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def pick(self, fields: Sequence[Field], *kinds: Kind) -> Field | None:
        """Return a field of one of these kinds; None if there is none."""
        fitting = [field for field in fields if field.kind in kinds]
        return self.rng.choice(fitting) if fitting else None

    def scalar(self, fields: Sequence[Field], depth: int = 1) -> Field:
        """Return an expression over the fields, of which there must be at least one."""
        usable = [field for field in fields if field.kind != "approx"]
        field = self.rng.choice(usable)
        if depth <= 0 or self.rng.random() < 0.55:
            return field
        return self.of_kind(field.kind, fields, depth)

    def of_kind(self, kind: Kind, fields: Sequence[Field], depth: int = 1) -> Field:
        """Return an expression of this kind."""
        field = self.pick(fields, kind)
        chance = self.rng.random()
        if kind == "bool":
            return (
                field if field is not None and chance < 0.3 else Field(f"({self.condition(fields, depth - 1)})", kind)
            )
        if depth <= 0 and field is not None:
            return field
        if kind == "int":
            return Field(self._integer(fields, depth), kind)
        plain = self._literal(kind) if field is None else field.sql
        if chance < 0.3:
            return Field(f"COALESCE({plain}, {self._literal(kind)})", kind)
        if chance < 0.5 and depth > 0:
            test = self.condition(fields, depth - 1)
            rest = f" ELSE {self._literal(kind)}" if self.rng.random() < 0.6 else ""
            return Field(f"(CASE WHEN {test} THEN {plain}{rest} END)", kind)
        if kind == "decimal" and chance < 0.8:
            other = self._integer(fields, 0)
            choices = (
                f"({plain} * 0.5)",
                f"({plain} + {other})",
                f"({plain} - 0.25)",
                f"CAST({other} AS DECIMAL(12,1))",
            )
            return Field(self.rng.choice(choices), kind)
        if kind == "float" and chance < 0.7:
            return Field(f"({plain} * 2)", kind)
        return Field(plain, kind)

    def _integer(self, fields: Sequence[Field], depth: int) -> str:
        field = self.pick(fields, "int")
        one = self._literal("int") if field is None else field.sql
        if depth <= 0:
            return one
        other = self._integer(fields, depth - 1)
        choice = self.rng.randrange(10)
        date = self.pick(fields, "date", "timestamp")
        if choice == 0 and date is not None:
            part = self.rng.choice(("YEAR", "MONTH", "DAY"))
            return f"EXTRACT({part} FROM {date.sql})"
        if choice == 1:
            return f"(CASE WHEN {self.condition(fields, 0)} THEN {one} ELSE {other} END)"
        if choice == 2:
            return f"COALESCE({one}, {self._literal('int')})"
        if choice in (3, 4):
            return f"({one} {self.rng.choice(('//', '%'))} {self.rng.choice((2, 3))})"
        if choice == 5:
            return self.rng.choice((f"(-{one})", f"ABS({one})"))
        return f"({one} {self.rng.choice('+-*')} {other})"

    def _literal(self, kind: Kind) -> str:
        choices: dict[Kind, tuple[str, ...]] = {
            "int": ("0", "1", "2", "5", "100"),
            "decimal": ("0.5", "1.25", "0"),
            "float": ("CAST(0 AS DOUBLE)", "CAST(1 AS DOUBLE)"),
            "string": _STRINGS,
            "bool": ("TRUE", "FALSE"),
            "date": _DATES,
            "timestamp": _TIMES,
        }
        return self.rng.choice(choices[kind])

    def condition(self, fields: Sequence[Field], depth: int = 1) -> str:
        """Return a condition on the fields."""
        if depth > 0 and self.rng.random() < 0.4:
            left, right = self.condition(fields, depth - 1), self.condition(fields, depth - 1)
            return self.rng.choice((f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})"))
        usable = [field for field in fields if field.kind != "approx"]
        field = self.rng.choice(usable)
        chance = self.rng.random()
        if chance < 0.1:
            return f"{field.sql} IS {self.rng.choice(('', 'NOT '))}NULL"
        if field.kind == "bool":
            return field.sql
        if field.kind == "string" and chance < 0.4:
            return f"{field.sql} {self.rng.choice(('', 'NOT '))}LIKE {self.rng.choice(_PATTERNS)}"
        literals = [self._literal(field.kind) for _ in range(3)]
        if chance < 0.25:
            literals += [self._literal(field.kind) for _ in range(self.rng.choice((0, 0, 9, 40)))]
            if self.rng.random() < 0.2:  # the same as a chain of OR or AND, a tree as deep as the list is long
                sign, word = self.rng.choice((("=", " OR "), ("<>", " AND ")))
                return f"({word.join(f'{field.sql} {sign} {literal}' for literal in literals)})"
            return f"{field.sql} {self.rng.choice(('', 'NOT '))}IN ({', '.join(literals)})"
        if chance < 0.35:
            return f"{field.sql} BETWEEN {literals[0]} AND {literals[1]}"
        other = self.pick([one for one in usable if one != field], field.kind)
        value = other.sql if other is not None and chance < 0.6 else literals[2]
        if field.kind == "int" and chance > 0.9:
            value = f"({value} + {literals[0]})"
        return f"{field.sql} {self.rng.choice(('=', '<>', '<', '<=', '>', '>='))} {value}"

    def aggregate(self, fields: Sequence[Field], *, shown: bool = True) -> Field:
        """Return an aggregate; with ``shown`` possibly one that rounds."""
        kind, call = self._aggregate_call(fields, shown=shown)
        if self.rng.random() < 0.12 and "DISTINCT" not in call:
            call = f"{call} FILTER (WHERE {self.condition(fields, 0)})"
        if kind == "int" and self.rng.random() < 0.12:
            call = f"{call} - COUNT(*)"
        return Field(call, kind)

    def _aggregate_call(self, fields: Sequence[Field], *, shown: bool) -> tuple[Kind, str]:
        chance = self.rng.random()
        if chance < 0.15:
            return "int", "COUNT(*)"
        if chance < 0.25:
            return "int", f"COUNT({self.scalar(fields, 0).sql})"
        if chance < 0.33:
            return "int", f"COUNT(DISTINCT {self.scalar(fields, 0).sql})"
        number = self.pick(fields, "int", "int", "decimal", "float")
        if chance < 0.5 or number is None:
            field = self.scalar([field for field in fields if field.kind != "bool"] or fields, 1)
            if field.kind == "bool":
                return "int", f"COUNT({field.sql})"
            return field.kind, f"{self.rng.choice(('MIN', 'MAX'))}({field.sql})"
        if chance < 0.58 and shown:
            return "approx", f"AVG({number.sql})"
        if chance < 0.62 and shown and number.kind == "int":
            return "approx", f"{self.rng.choice(('STDDEV', 'VARIANCE', 'VAR_POP'))}({number.sql})"
        if chance < 0.66 and number.kind == "int":
            return "int", f"SUM(DISTINCT {number.sql})"
        if chance < 0.72 and number.kind == "int":
            share = self.rng.choice(("0", "0.1", "0.25", "0.5", "0.9", "1"))
            if shown and self.rng.random() < 0.5:
                return "approx", self.rng.choice((f"MEDIAN({number.sql})", f"QUANTILE_CONT({number.sql}, {share})"))
            return "int", f"QUANTILE_DISC({number.sql}, {share})"
        value = number if self.rng.random() < 0.4 else self.of_kind(number.kind, fields, 2)
        return number.kind, f"SUM({value.sql})"
