"""Kernel source is compiled with as few versions of its functions as it needs."""

from __future__ import annotations

from runtime.native.library import btree, dense, entries, hashing
from runtime.native.machine_code import _literal_places


def test_only_constants_are_literals() -> None:
    """Every other literal in a call would have a version of the function made for it."""
    assert _literal_places(dense.below) == {4}
    assert _literal_places(btree.add) == {3}
    assert _literal_places(entries.clear) == set()
    assert _literal_places(hashing.find) == set()
