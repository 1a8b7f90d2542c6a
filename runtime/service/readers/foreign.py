"""Installed adaptors: loaded by the name of an entry point, never as code from a client.

A package declares its adaptor in ``pyproject.toml``::

    [project.entry-points."deltabook.adaptors"]
    prices = "my_package.adaptors:prices"

``prices`` is called with an `AdaptorRequest` and returns an `Adaptor`. State that the adaptor needs from one call of
`apply` to the next must be in `AdaptorRequest.state` and nowhere else, because only this state is committed with the
rows and recovered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import Final, TypeVar

import msgspec
import pyarrow as pa

from runtime.formats import FormattedBatch, Pushdown, Schema
from runtime.plan import Relation
from runtime.relations import Adaptor, AdaptorError, Offsets, Prepared
from runtime.service.errors import CatalogueError
from runtime.service.readers.adaptorstate import AdaptorState
from runtime.state import ARROW_TYPES, ObjectSpace

__all__ = ["AdaptorRequest", "ForeignAdaptor", "foreign_adaptor", "foreign_names"]

T = TypeVar("T")
_GROUP: Final = "deltabook.adaptors"


class AdaptorRequest(msgspec.Struct, frozen=True):
    """Arguments of an adaptor's factory."""

    relation: Relation
    """The only relation that the adaptor may fill."""
    format: str
    """Format that the reader requests; empty if the adaptor may choose."""
    options: Mapping[str, str]
    """Options of the reader; the adaptor must refuse unknown ones with `ValueError`."""
    state: AdaptorState = msgspec.field(default_factory=AdaptorState)
    """Persisted objects, usable in `Adaptor.apply` only."""


def foreign_names() -> list[str]:
    """Return the names of the installed adaptors."""
    return sorted(entry.name for entry in entry_points(group=_GROUP))


def foreign_adaptor(name: str, request: AdaptorRequest) -> ForeignAdaptor:
    """Return an installed adaptor; raises `CatalogueError` if there is none of this name, or it cannot be created."""
    for entry in entry_points(group=_GROUP, name=name):
        try:
            make: Callable[[AdaptorRequest], Adaptor] = entry.load()
            return ForeignAdaptor(name, make(request), request.state)
        except Exception as error:  # noqa: BLE001 (foreign code may raise anything, and must not stop others)
            raise CatalogueError(f"adaptor {name}: {type(error).__name__}: {error}") from None
    known = ", ".join(["orderbook", "rows", *foreign_names()])
    raise CatalogueError(f"expected an adaptor out of {known}, was {name!r}")


class ForeignAdaptor(Adaptor):
    """Wrapper of an installed adaptor, whose errors and invalid rows fail only the reader that uses the adaptor.

    After an error, the adaptor's state may be half changed; it is not used again, see
    `runtime.service.readers.adaptorstate`.
    """

    def __init__(self, name: str, adaptor: Adaptor, state: AdaptorState | None = None) -> None:
        """Wrap ``adaptor``, which was given ``state``; raise `AdaptorError` if it has no schema or relations."""
        self._name = name
        self._adaptor = adaptor
        self._state = state or AdaptorState()
        self._schema: Schema = self._guard(lambda: adaptor.schema)
        self._relations: tuple[Relation, ...] = self._guard(lambda: tuple(adaptor.relations))
        self._columns = {
            relation.name: pa.schema(
                [*((c.name, ARROW_TYPES[c.type]) for c in relation.columns), ("weight", pa.int64())]
            )
            for relation in self._relations
        }
        self._pushdown: Pushdown = self._guard(lambda: adaptor.pushdown)

    def bind(self, space: ObjectSpace, reader: str) -> None:
        """Keep the adaptor's state in ``space`` under names that begin with ``reader``."""
        self._state.bind(space, reader)

    @property
    def schema(self) -> Schema:
        return self._schema

    @property
    def relations(self) -> tuple[Relation, ...]:
        return self._relations

    @property
    def pushdown(self) -> Pushdown:
        return self._pushdown

    def opened(self, sequence: int) -> None:
        self._guard(lambda: self._adaptor.opened(sequence))

    def received(self, batch: FormattedBatch) -> pa.RecordBatch:
        return self._guard(lambda: self._adaptor.received(batch))

    def prepare(self, rows: pa.RecordBatch, row_ends: Offsets) -> Prepared:
        prepared = self._guard(lambda: self._adaptor.prepare(rows, row_ends))
        lengths = {prepared.rows.num_rows, len(prepared.cuttable), len(prepared.row_ends)}
        if len(lengths) > 1:
            raise AdaptorError(
                f"expected equal numbers of rows, ends and cuts of adaptor {self._name}, was {sorted(lengths)}"
            )
        return prepared

    def apply(self, prepared: Prepared) -> Mapping[str, pa.RecordBatch]:
        return self._guard(lambda: self._state.during(lambda: self._applied(prepared)))

    def _applied(self, prepared: Prepared) -> Mapping[str, pa.RecordBatch]:
        deltas = self._adaptor.apply(prepared)
        for name, batch in deltas.items():
            expected = self._columns.get(name)
            if expected is None or not batch.schema.equals(expected):
                raise AdaptorError(
                    f"expected the columns of {' or '.join(self._columns)}, "
                    f"was {name} with {', '.join(batch.schema.names)}"
                )
        return deltas

    def _guard(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except Exception as error:  # noqa: BLE001 (foreign code may raise anything, and must not stop others)
            if isinstance(error, AdaptorError):
                raise AdaptorError(f"adaptor {self._name}: {error}") from None
            raise AdaptorError(f"adaptor {self._name}: {type(error).__name__}: {error}") from None
