"""Each persisted type with its Python counterpart: how to make both, their operations, and their contents."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import msgspec
from hypothesis import strategies as st
from sortedcontainers import SortedDict, SortedSet

from runtime.state import (
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
)

__all__ = ["HASHABLE", "LABS", "VALUES", "Lab", "Operation", "Outcome", "outcome"]

SMALL: Final = st.integers(0, 6)
HASHABLE: Final = st.one_of(
    SMALL,
    st.booleans(),
    st.none(),
    st.sampled_from([2**63, 2**64, -(2**80), 1.0, -0.0, Decimal("1.00"), Decimal("-7E+3"), "", "é", b"", b"\xc4"]),
    st.tuples(SMALL, st.sampled_from(["x", None])),
)
VALUES: Final = st.one_of(
    HASHABLE,
    st.binary(max_size=3),
    st.text(max_size=3),
    st.lists(HASHABLE, max_size=2),
    st.dictionaries(HASHABLE, SMALL, max_size=2),
    st.frozensets(SMALL, max_size=2),
)
PLACES: Final = st.integers(-8, 8)
SLICES: Final = st.builds(slice, st.none() | PLACES, st.none() | PLACES, st.none() | st.sampled_from([-2, -1, 1, 2]))
MANY: Final = st.lists(VALUES, max_size=4)
Outcome = tuple[str, object]


class Operation(msgspec.Struct, frozen=True):
    """Operation on a persisted object and on its counterpart."""

    arguments: st.SearchStrategy[tuple[Any, ...]]
    """Strategy of its arguments."""
    persisted: Callable[..., Any]
    """(object, arguments) → result."""
    model: Callable[..., Any]
    """(counterpart, arguments) → result."""


class Lab(msgspec.Struct, frozen=True):
    """Persisted type and its counterpart."""

    kind: type[PersistedObject]
    """The persisted type."""
    model: Callable[[], Any]
    """Function that makes the counterpart."""
    operations: dict[str, Operation]
    """Operations by name."""
    contents: Callable[[Any], object]
    """Function that returns the contents of either, comparable, with types and order where they matter."""
    length: int = 0
    """Length of a new array."""


def outcome(call: Callable[..., Any], *arguments: Any) -> Outcome:
    """Return the result of a call, or the type of its error."""
    try:
        result = call(*arguments)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        return "raised", type(error).__name__
    return "gave", repr(result)


def _method(name: str, *arguments: st.SearchStrategy[Any], model: str = "") -> Operation:
    return Operation(
        st.tuples(*arguments),
        lambda held, *given: getattr(held, name)(*given),
        lambda held, *given: getattr(held, model or name)(*given),
    )


def _change(name: str, *arguments: st.SearchStrategy[Any]) -> Operation:
    """Return a method whose result is ignored: sorted sets return themselves."""
    method = _method(name, *arguments)
    return Operation(
        method.arguments,
        lambda held, *given: method.persisted(held, *given) and None,
        lambda held, *given: (method.model(held, *given), None)[1],
    )


def _set_value(held: Any, value: object) -> None:
    held.value = value


class Box:
    """Counterpart of a value."""

    value: object = None


def _places(held: Any) -> list[Any]:
    """Return the nodes of a linked list."""
    found, node = [], held.first
    while node is not None:
        found.append(node)
        node = node.next
    return found


def _linked(change: Callable[..., object]) -> Callable[..., object]:
    return lambda held, place, *value: change(held, _places(held)[place], *value) and None


def _set_node(held: Any, node: Any, value: object) -> None:
    node.value = value


_ITEMS: Final = {
    "get": _method("__getitem__", PLACES),
    "slice": _method("__getitem__", SLICES),
    "count": _method("count", HASHABLE),
    "index": _method("index", HASHABLE),
    "contains": _method("__contains__", HASHABLE),
}
_MAPPING: Final = {
    "set": _method("__setitem__", HASHABLE, VALUES),
    "get": _method("__getitem__", HASHABLE),
    "delete": _method("__delitem__", HASHABLE),
    "pop": _method("pop", HASHABLE),
    "pop or": _method("pop", HASHABLE, VALUES),
    "setdefault": _method("setdefault", HASHABLE, VALUES),
    "update": _method("update", st.dictionaries(HASHABLE, VALUES, max_size=4)),
    "popitem": _method("popitem"),
    "clear": _method("clear"),
    "contains": _method("__contains__", HASHABLE),
}
_MEMBERS: Final = {
    "remove": _method("remove", SMALL),
    "discard": _method("discard", SMALL),
    "clear": _method("clear"),
    "update": _change("update", st.lists(SMALL, max_size=5)),
    "difference": _change("difference_update", st.lists(SMALL, max_size=3)),
    "intersection": _change("intersection_update", st.sets(SMALL, min_size=3)),
    "symmetric": _change("symmetric_difference_update", st.sets(SMALL, max_size=3)),
    "contains": _method("__contains__", SMALL),
}


def _on_integers(operations: dict[str, Operation]) -> dict[str, Operation]:
    """Return the same operations on keys that have an order."""
    keys = {"set": st.tuples(SMALL, VALUES), "setdefault": st.tuples(SMALL, VALUES), "pop or": st.tuples(SMALL, VALUES)}
    found = {}
    for name, operation in operations.items():
        arguments = keys.get(name, st.tuples(SMALL))
        if name == "update":
            arguments = st.tuples(st.dictionaries(SMALL, VALUES, max_size=4))
        is_bare = name in {"popitem", "clear"}
        found[name] = Operation(operation.arguments if is_bare else arguments, operation.persisted, operation.model)
    return found


_LISTED: Final[list[Lab]] = [
    Lab(
        PersistedValue,
        Box,
        {"set": Operation(st.tuples(VALUES), _set_value, _set_value)},
        lambda held: repr(held.value),
    ),
    Lab(
        PersistedArray,
        lambda: [None] * 5,
        {**_ITEMS, "set": _method("__setitem__", PLACES, VALUES)},
        lambda held: repr(list(held)),
        length=5,
    ),
    Lab(
        PersistedList,
        list,
        {
            **_ITEMS,
            "set": _method("__setitem__", PLACES, VALUES),
            "set slice": _method("__setitem__", SLICES, MANY),
            "delete": _method("__delitem__", PLACES),
            "delete slice": _method("__delitem__", SLICES),
            "insert": _method("insert", PLACES, VALUES),
            "append": _method("append", VALUES),
            "extend": _method("extend", MANY),
            "pop": _method("pop"),
            "pop at": _method("pop", PLACES),
            "remove": _method("remove", HASHABLE),
            "reverse": _method("reverse"),
            # All values have this order; if values cannot be compared, only the persisted list stays half sorted.
            "sort": Operation(st.tuples(), lambda held: held.sort(key=repr), lambda held: held.sort(key=repr)),
            "clear": _method("clear"),
        },
        lambda held: repr(list(held)),
    ),
    Lab(
        PersistedQueue,
        deque,
        {
            **{name: operation for name, operation in _ITEMS.items() if name != "slice"},
            "enqueue": _method("enqueue", VALUES, model="append"),
            "extend": _method("extend", MANY),
            "dequeue": _method("dequeue", model="popleft"),
            "peek": Operation(st.tuples(), lambda held: held.peek(), lambda held: held[0]),
            "clear": _method("clear"),
        },
        lambda held: repr(list(held)),
    ),
    Lab(
        PersistedStack,
        list,
        {
            **_ITEMS,
            "push": _method("push", VALUES, model="append"),
            "extend": _method("extend", MANY),
            "pop": _method("pop"),
            "peek": Operation(st.tuples(), lambda held: held.peek(), lambda held: held[-1]),
            "clear": _method("clear"),
        },
        lambda held: repr(list(held)),
    ),
    Lab(
        PersistedLinkedList,
        list,
        {
            "append": Operation(
                st.tuples(VALUES), lambda held, v: held.append(v) and None, lambda held, v: held.append(v)
            ),
            "appendleft": Operation(
                st.tuples(VALUES), lambda held, v: held.appendleft(v) and None, lambda held, v: held.insert(0, v)
            ),
            "insert before": Operation(
                st.tuples(PLACES, VALUES),
                _linked(PersistedLinkedList.insert_before),
                lambda held, place, v: held.insert(range(len(held))[place], v),
            ),
            "insert after": Operation(
                st.tuples(PLACES, VALUES),
                _linked(PersistedLinkedList.insert_after),
                lambda held, place, v: held.insert(range(len(held))[place] + 1, v),
            ),
            "remove node": Operation(
                st.tuples(PLACES),
                _linked(lambda held, node: held.remove_node(node)),
                lambda held, place: held.__delitem__(place),
            ),
            "set": Operation(
                st.tuples(PLACES, VALUES), _linked(_set_node), lambda held, place, v: held.__setitem__(place, v)
            ),
            "remove": _method("remove", HASHABLE),
            "pop": _method("pop"),
            "popleft": Operation(st.tuples(), lambda held: held.popleft(), lambda held: held.pop(0)),
            "extend": _method("extend", MANY),
            "clear": _method("clear"),
            "contains": _method("__contains__", HASHABLE),
            "reversed": Operation(st.tuples(), lambda held: list(reversed(held)), lambda held: held[::-1]),
        },
        lambda held: repr(list(held)),
    ),
    Lab(
        PersistedSet,
        set,
        {**_MEMBERS, "add": _method("add", HASHABLE)},
        set,
    ),
    Lab(
        PersistedSortedSet,
        SortedSet,
        {
            **_MEMBERS,
            "add": _method("add", SMALL),
            "get": _method("__getitem__", PLACES),
            "pop": _method("pop"),
            "pop at": _method("pop", PLACES),
            "delete": _method("__delitem__", PLACES),
            "index": _method("index", SMALL),
            "bisect": _method("bisect_left", SMALL),
            "bisect right": _method("bisect_right", SMALL),
            "range": Operation(
                st.tuples(SMALL, SMALL), lambda s, a, b: list(s.irange(a, b)), lambda s, a, b: list(s.irange(a, b))
            ),
        },
        lambda held: repr(list(held)),
    ),
    Lab(PersistedDictionary, dict, _MAPPING, lambda held: repr(list(held.items()))),
    Lab(
        PersistedSortedDictionary,
        SortedDict,
        {
            **_on_integers(_MAPPING),
            "peekitem": _method("peekitem", PLACES),
            "popitem at": _method("popitem", PLACES),
            "index": _method("index", SMALL),
            "bisect": _method("bisect_left", SMALL),
            "range": Operation(
                st.tuples(SMALL, SMALL), lambda s, a, b: list(s.irange(a, b)), lambda s, a, b: list(s.irange(a, b))
            ),
        },
        lambda held: repr(list(held.items())),
    ),
]
LABS: Final = {lab.kind.kind: lab for lab in _LISTED}
"""Labs by the name that the index has for the type."""
