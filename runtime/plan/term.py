"""Products of bound columns, of which sums over joins and selections are made."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

__all__ = ["Term", "product_text", "terms_text"]


class Term(msgspec.Struct, frozen=True):
    """``factor × Π columns``, integers."""

    factor: int
    """Constant."""
    columns: tuple[str, ...]
    """Bound columns: ``alias.sum``, ``alias.weight``, or a numeric ``alias.key``."""


def product_text(term: Term) -> str:
    """``factor × Π columns``."""
    parts = [*([] if abs(term.factor) == 1 and term.columns else [str(abs(term.factor))]), *term.columns]
    return ("-" if term.factor < 0 else "") + " * ".join(parts)


def terms_text(sum_of: Sequence[Term]) -> str:
    """Products, added up."""
    text = ""
    for term in sum_of:
        part = product_text(term)
        text += part if not text else f" - {part[1:]}" if part.startswith("-") else f" + {part}"
    return text or "0"
