"""Rows 1 and 2 of docs/features/state.md: the ten types, and how objects are made and found."""

from __future__ import annotations

from collections.abc import Collection, MutableMapping, MutableSequence, MutableSet, Sequence
from decimal import Decimal
from enum import Enum
from typing import Any

import msgspec
import pytest

from runtime.state import (
    KINDS,
    KindError,
    MemoryStore,
    NameTakenError,
    ObjectSpace,
    PersistedArray,
    PersistedDictionary,
    PersistedLinkedList,
    PersistedList,
    PersistedObject,
    PersistedQueue,
    PersistedSet,
    PersistedSortedDictionary,
    PersistedSortedSet,
    PersistedStack,
    PersistedValue,
    Schema,
    StateError,
)
from tests.features.state.spaces import Bench

NAMES = [
    "value", "array", "list", "queue", "stack", "linked_list", "set", "sorted_set", "dictionary", "sorted_dictionary"
]  # fmt: skip
EXACT: list[Any] = [
    None, True, False, 0, -1, 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 2**200, 1.5, -0.0, float("inf"), "", "é ☃", b"",
    b"\xc4\x00", Decimal("1.10"), Decimal("-0"), Decimal("1E+300"), (), (1, (2, None)), [1, [2]], {}, {"a": (1,)},
    {(1, 2): [3]}, {1, 2}, frozenset({"x"}),
]  # fmt: skip


class Side(Enum):
    BUY = "buy"


class Order(msgspec.Struct, frozen=True):
    side: Side
    price: Decimal
    parts: tuple[int, ...]


@pytest.fixture
def space() -> ObjectSpace:
    return ObjectSpace(MemoryStore())


def test_row_01_there_are_ten_types(space: ObjectSpace) -> None:
    assert list(KINDS) == NAMES
    faces: dict[type[PersistedObject], type] = {
        PersistedArray: Sequence,
        PersistedList: MutableSequence,
        PersistedQueue: Sequence,
        PersistedStack: Sequence,
        PersistedLinkedList: Collection,
        PersistedSet: MutableSet,
        PersistedSortedSet: MutableSet,
        PersistedDictionary: MutableMapping,
        PersistedSortedDictionary: MutableMapping,
    }
    for kind, face in faces.items():
        assert isinstance(space.create(kind, kind.kind), face)


def test_row_01_exceptions_are_pythons(space: ObjectSpace) -> None:
    array = space.create(PersistedArray[int], "array", length=2, initial=0)
    listed = space.create(PersistedList[int], "list")
    queue, stack = space.create(PersistedQueue[int], "queue"), space.create(PersistedStack[int], "stack")
    linked = space.create(PersistedLinkedList[int], "linked")
    some = space.create(PersistedSet[Any], "set")
    ordered = space.create(PersistedSortedSet[Any], "sorted")
    named = space.create(PersistedDictionary[Any, Any], "dictionary")
    calls: list[tuple[type[Exception], Any]] = [
        (IndexError, lambda: array[2]),
        (IndexError, lambda: array.__setitem__(-3, 1)),
        (TypeError, lambda: array.__setitem__("0", 1)),  # type: ignore[index]
        (IndexError, listed.pop),
        (IndexError, lambda: listed.__setitem__(0, 1)),
        (IndexError, lambda: listed.__delitem__(0)),
        (ValueError, lambda: listed.remove(1)),
        (ValueError, lambda: listed.index(1)),
        (IndexError, queue.dequeue),
        (IndexError, queue.peek),
        (IndexError, stack.pop),
        (IndexError, stack.peek),
        (IndexError, linked.pop),
        (IndexError, linked.popleft),
        (ValueError, lambda: linked.remove(1)),
        (KeyError, lambda: linked.node(0)),
        (KeyError, lambda: some.remove(1)),
        (KeyError, some.pop),
        (TypeError, lambda: some.add([])),
        (IndexError, ordered.pop),
        (KeyError, lambda: named["x"]),
        (KeyError, lambda: named.__delitem__("x")),
        (KeyError, named.popitem),
        (TypeError, lambda: named.__setitem__([], 1)),
        (ValueError, lambda: space.create(PersistedArray, "less", length=-1)),
    ]
    for expected, call in calls:
        with pytest.raises(expected):
            call()
    ordered.add(1)
    with pytest.raises(TypeError):
        ordered.add("text")
    assert list(ordered) == [1]
    space._check()


def test_row_01_values_come_back_as_what_they_were() -> None:
    """Every value in every place, of the same type, over a restart."""
    bench = Bench()
    listed = bench.space.create(PersistedList[Any], "list")
    listed.extend(EXACT)
    keyed = bench.space.create(PersistedDictionary[Any, Any], "dictionary")
    for place, value in enumerate(EXACT):
        keyed[place] = value
    bench.commit()
    for found in (bench.space, bench.restart()):
        held = [*found.get(PersistedList, "list"), *found.get(PersistedDictionary, "dictionary").values()]
        assert list(map(repr, held)) == list(map(repr, EXACT + EXACT))


def test_row_01_true_and_1_are_one_key_as_in_a_dict() -> None:
    bench = Bench()
    named = bench.space.create(PersistedDictionary[Any, Any], "dictionary")
    named[1] = "one"
    bench.commit()
    named[True] = "true"
    bench.commit()
    assert repr(dict(bench.restart().get(PersistedDictionary, "dictionary"))) == repr({1: "true"})


def test_row_01_a_dictionary_keeps_its_order_over_a_restart() -> None:
    bench = Bench()
    named = bench.space.create(PersistedDictionary[str, int], "dictionary")
    named.update(a=1, b=2, c=3)
    bench.commit()
    del named["a"]
    named["d"] = 4  # in the slot of a
    named["b"] = 5
    bench.commit()
    assert list(bench.restart().get(PersistedDictionary, "dictionary").items()) == [("b", 5), ("c", 3), ("d", 4)]


def test_row_01_typed_objects_take_and_give_their_type_alone() -> None:
    bench = Bench()
    schema = Schema(Order, key=int)
    order = Order(Side.BUY, Decimal("1.50"), (1, 2**70))
    orders = bench.space.create(PersistedDictionary[int, Order], "orders", schema)
    orders[7] = order
    numbers = bench.space.create(PersistedList[int], "numbers", Schema(int))
    for bad in ("8", True, 1.0, None):
        with pytest.raises(TypeError):
            orders[bad] = order  # type: ignore[index]
        with pytest.raises(TypeError):
            numbers.append(bad)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a value of type Order"):
        orders[8] = "an order"  # type: ignore[assignment]
    with pytest.raises(TypeError, match="expected a plain Python value"):
        bench.space.create(PersistedList[Any], "plain").append(order)
    bench.commit()
    assert dict(bench.restart().get(PersistedDictionary, "orders", schema)) == {7: order}
    assert list(bench.space.get(PersistedList, "numbers", Schema(int))) == []
    with pytest.raises(TypeError, match="object numbers to be of key and value types"):
        bench.space.get(PersistedList, "numbers", Schema(str))


def test_row_01_a_node_of_a_linked_list_is_a_place_that_lasts() -> None:
    bench = Bench()
    linked = bench.space.create(PersistedLinkedList[str], "linked")
    linked.extend("ac")
    assert linked.first is not None
    middle = linked.insert_after(linked.first, "b")
    bench.commit()
    again = bench.restart().get(PersistedLinkedList, "linked")
    node = again.node(middle.number)
    assert (node.value, node.previous, node.next) == ("b", again.first, again.last)
    again.remove_node(node)
    taken = again.append("d")
    assert taken.number == node.number, "its slot is used again"
    assert taken != node
    with pytest.raises(ValueError, match="was removed"):
        node.value  # noqa: B018
    with pytest.raises(ValueError, match="of linked list other, was of linked"):
        bench.space.create(PersistedLinkedList[str], "other").insert_after(taken, "x")


def test_row_02_a_name_is_given_once(space: ObjectSpace) -> None:
    space.create(PersistedList, "a")
    with pytest.raises(NameTakenError, match="expected no object named a, was a list"):
        space.create(PersistedSet, "a")


@pytest.mark.parametrize("is_restarted", [False, True])
def test_row_02_objects_are_got_by_name_and_kind(is_restarted: bool) -> None:
    bench = Bench()
    made = [bench.space.create(kind, name) for name, kind in KINDS.items()]
    bench.commit()
    space = bench.restart() if is_restarted else bench.space
    for before, (name, kind) in zip(made, KINDS.items(), strict=True):
        found = space.get(kind, name)
        assert type(found) is kind
        assert (found is before) is not is_restarted
        assert space.get(kind, name) is found
        assert space.get_or_create(kind, name) is found
        other = PersistedSet if kind is PersistedList else PersistedList
        for call in (space.get, space.get_or_create):
            with pytest.raises(TypeError, match=f"expected object {name} to be {other.kind}, was {name}"):
                call(other, name)
    with pytest.raises(KeyError, match="expected an object named nothing"):
        space.get(PersistedList, "nothing")
    assert "nothing" not in space
    assert space.get_or_create(PersistedValue[int], "nothing", initial=5).value == 5


def test_row_02_objects_are_enumerated_and_deleted() -> None:
    bench = Bench()
    for name, kind in KINDS.items():
        bench.space.create(kind, name)
    bench.commit()
    space = bench.restart()
    assert {name: space.kind(name) for name in space} == {name: name for name in NAMES}
    held = space.get(PersistedList, "list")
    space.delete("list")
    space.delete("set")
    with pytest.raises(KeyError):
        space.delete("set")
    with pytest.raises(StateError, match="expected object list to exist, was deleted"):
        held.append(1)
    bench.commit()
    assert sorted(bench.restart()) == sorted(set(NAMES) - {"list", "set"})
    assert len(bench.space) == 8


def test_row_02_columnar_objects_have_names_among_the_others() -> None:
    bench = Bench()
    bench.space.table("orders", 1, ["volume"])
    bench.space.pool("texts")
    bench.commit()
    space = bench.restart()
    assert {name: space.kind(name) for name in space} == {"orders": "table:1:volume", "texts": "pool"}
    with pytest.raises(KindError, match="expected object orders to be list, was table:1:volume"):
        space.get(PersistedList, "orders")
    with pytest.raises(NameTakenError):
        space.create(PersistedList, "texts")
