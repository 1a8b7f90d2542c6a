"""What every form of a view's plan can say of itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import msgspec

from runtime.plan.algebra import Column, Map

__all__ = ["Body"]


class Body(msgspec.Struct, frozen=True):
    """How a view is kept up to date. Placement, catalogue, backfill and `explain` use these methods alone."""

    @abstractmethod
    def renumbered(self, number: Callable[[int], int]) -> Self:
        """Return the same plan over maps of other numbers."""

    def maps(self) -> frozenset[int]:
        """Return the maps that it reads."""
        found: set[int] = set()

        def see(number: int) -> int:
            found.add(number)
            return number

        self.renumbered(see)
        return frozenset(found)

    def shard_keys(self, maps: Sequence[Map]) -> Mapping[int, int | None] | None:
        """Return, for each map, the place of the key whose value says the shard of a row.

        -1: all keys together; None: every shard keeps all of the map.

        The changes of the shards then add up to those of the whole. None: the view lives in one shard.
        """
        del maps
        return None

    def placement(self, maps: Sequence[Map]) -> str:
        """Return the placement in words."""
        del maps
        return "all of it in one"

    @abstractmethod
    def cost(self) -> str:
        """Return what a batch costs, in words."""

    @abstractmethod
    def lines(self, columns: Sequence[Column], maps: Sequence[Map]) -> list[str]:
        """Return the way from maps to rows in words, for a view with these columns."""
