"""Products of bound columns, of which sums over joins and selections are made."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from runtime.plan.algebra import Call, Col, Expr, Lit

__all__ = ["Term", "sum_of_terms"]


class Term(msgspec.Struct, frozen=True):
    """``factor × Π columns``, integers."""

    factor: int
    """Constant."""
    columns: tuple[str, ...]
    """Bound columns: ``alias.sum``, ``alias.weight``, or a numeric ``alias.key``."""


def sum_of_terms(terms: Sequence[Term]) -> Expr:
    """Products, added up, as an expression over the bound columns."""
    total: Expr | None = None
    for term in terms:
        is_less = total is not None and term.factor < 0
        product = _product(-term.factor if is_less else term.factor, term.columns)
        total = product if total is None else Call("sub" if is_less else "add", (total, product))
    return Lit(0) if total is None else total


def _product(factor: int, columns: Sequence[str]) -> Expr:
    if factor == -1 and columns:
        return Call("neg", (_product(1, columns),))
    factors: list[Expr] = [*map(Col, columns), *([] if factor == 1 and columns else [Lit(factor)])]
    return factors[0] if len(factors) == 1 else Call("mul", tuple(factors))
