"""The names that a strategy file may rely on."""

from __future__ import annotations

import algo_engine


def test_the_public_surface_is_pinned() -> None:
    assert algo_engine.__all__ == sorted(algo_engine.__all__)
    assert all(hasattr(algo_engine, name) for name in algo_engine.__all__)
    assert set(algo_engine.__all__) == {
        "AlgoError", "Context", "EventKind", "NoParameters", "Order", "OrderEvent", "OrderOptions", "OrderStatus",
        "ProfitAndLoss", "Quote", "Row", "Side", "Strategy", "ViewChange", "ViewContents",
    }  # fmt: skip
