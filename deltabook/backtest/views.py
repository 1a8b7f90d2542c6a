"""The views of a backtest: programs of the express lane, which take a step for the changes of each request.

`RunViews` adds the views that strategies request while they run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from algo_engine.clocks import ScheduledCall
from algo_engine.loader import LoadedStrategy
from algo_engine.requested import same_sql
from algo_engine.strategy import Lane
from algo_engine.views.quotes import QUOTE_VIEW
from deltabook.backtest.deltas import Delta
from deltabook.backtest.errors import ConfigurationError
from deltabook.wire.advice import did_you_mean
from queries import QUERIES_DIR
from runtime.compiler import MARKET_RELATIONS, NamedSelect, Program, SqlError, compile_program, names_read, read_script
from runtime.compiler.script import is_view_name
from runtime.plan import EPOCH_TIME, Column, View
from runtime.views.graph import DrivenGraph
from runtime.views.shard import Kernels, ShardState

if TYPE_CHECKING:
    from deltabook.backtest.clock import SimulatedClock

__all__ = ["BacktestViews", "Change", "RunViews", "find_views", "named_sql", "wanted_views"]

_LONGEST_WAIT_S: Final = 60.0
"""Longest wait for compiled kernels, in seconds."""
_INTERPRETED_S: Final = 1e-4
"""Approximate duration of a step of the shipped views with interpreted kernels, in seconds."""

Row = tuple[Any, ...]
Change = tuple[str, list[Row], list[int]]
"""View, rows, and how many of each were added (+) or removed (-)."""


def named_sql(views: Mapping[str, Any]) -> dict[str, str]:
    """Return views by their names in lower case; raise `ConfigurationError` for a view whose SQL is not text."""
    for name, sql in views.items():
        if not isinstance(sql, str):
            raise ConfigurationError(f"expected the SQL of the view {name}, was {sql!r}")
    return {name.lower(): sql for name, sql in views.items()}


def wanted_views(views: Mapping[str, str], strategies: Iterable[LoadedStrategy]) -> tuple[list[str], dict[str, str]]:
    """Return the names of all views of a run, and the SQL of the views that come with its configuration or with a
    strategy.

    Raise `ConfigurationError` for two views of one name.
    """
    names, given = [QUOTE_VIEW], dict(views)
    for loaded in strategies:
        names += [*loaded.strategy.views, *loaded.strategy.queries]
        for name, sql in loaded.strategy.queries.items():
            if not same_sql(given.setdefault(name, sql), sql):
                raise ConfigurationError(f"expected one view {name}, was another of the strategy {loaded.name}")
    return names, given


def find_views(names: Sequence[str], given: Mapping[str, str], folder: Path = QUERIES_DIR) -> list[NamedSelect]:
    """Return the SELECTs of these views and of the views that they read. The SQL of a view is in ``given`` (name →
    SQL), or else in the file with the view's name. Raise `ConfigurationError` for an unknown name and for SQL that
    cannot be parsed.
    """
    selects: list[NamedSelect] = []
    wanted = sorted(dict.fromkeys(names))
    relations = {relation.name for relation in MARKET_RELATIONS}
    while wanted:
        selects += _find(wanted, given, folder)
        read = {name for select in selects for name in _read(select)} - relations - {select.name for select in selects}
        # The compiler rejects a name that is neither a view nor a relation, and its error has the name's position.
        wanted = sorted(name for name in read if name in given or (folder / f"{name}.sql").is_file())
    return selects


def _read(select: NamedSelect) -> tuple[str, ...]:
    try:
        return names_read(select)
    except SqlError as error:
        raise ConfigurationError(str(error)) from error


def _find(names: Sequence[str], given: Mapping[str, str], folder: Path) -> list[NamedSelect]:
    chosen = []
    for name in names:
        if name in given:
            chosen.append(NamedSelect(name, given[name], lane="express"))
            continue
        path = folder / f"{name}.sql"
        if not path.is_file():
            # A file whose name ends with _schema has relations and no view.
            files = [path.stem for path in folder.glob("*.sql") if not path.stem.endswith("_schema")]
            known = sorted({*given, *files})
            meant = did_you_mean(name, known)
            raise ConfigurationError(f"expected one of the views {', '.join(known)}, was {name}{meant}")
        try:
            script = read_script(path)
        except SqlError as error:
            raise ConfigurationError(f"{path}: {error}") from error
        if any(stream.name == name for stream in script.derived):
            raise ConfigurationError(
                f"expected a view in {path}, was the derived stream {name}, which neither a backtest nor a replay keeps"
            )
        selects = [select for select in script.selects if select.name == name]
        if len(selects) != 1:
            raise ConfigurationError(f"expected one SELECT named {name} in {path}, was {len(selects)}")
        chosen += selects
    return chosen


class _Group:
    """Views that were added together, with a program and a state of their own."""

    def __init__(self, selects: Sequence[NamedSelect], standing: Sequence[View], kernels: Kernels | None) -> None:
        program = _compiled(selects, standing)
        self.views: tuple[View, ...] = program.views
        self.slow = {view.name: view.reason for view in program.views if view.view_class == "reevaluated"}
        self._state = ShardState(program, inputs="relations", kernels=kernels)
        self._state.keeps_taken = False
        self._rows: dict[str, dict[Row, int]] = {view.name: {} for view in program.views}
        self.keeps_rows = True
        """True if the rows of the views are kept up to date, for `result`."""
        self.reads = frozenset(relation.name for relation in program.relations)
        self.step([])

    def result(self, name: str) -> dict[Row, int]:
        """Return a view's rows."""
        assert self.keeps_rows, f"expected the rows of {name} to be kept"
        return self._rows[name]

    def step(self, deltas: list[Delta]) -> list[tuple[str, Row, int]]:
        """Apply deltas that come together, and return the changes of the views; raise `ConfigurationError` if a view
        fails.
        """
        reads = self.reads
        for relation, _, _ in deltas:
            if relation in reads:
                break
        else:
            if deltas:
                return []
        return self.enter_changes(self._state.step_rows(deltas))

    def sources(self) -> list[str]:
        """Return the kernel sources of its views."""
        return self._state.sources()

    def driven(self) -> DrivenGraph | None:
        """Return the graph of its views for a kernel that runs the graph; None if DuckDB computes one of the views."""
        return self._state.driven()

    def enter_changes(self, changes: list[tuple[str, Row, int]]) -> list[tuple[str, Row, int]]:
        """Bring the rows of the views up to date; raise `ConfigurationError` if a view has failed."""
        if self._state.has_failed:
            view, reason = next(iter(self._state.failed.items()))
            raise ConfigurationError(f"expected the view {view} to continue, was {reason}")
        if not self.keeps_rows:
            return changes
        for view, row, number in changes:
            rows = self._rows[view]
            count = rows.get(row, 0) + number
            if count:
                rows[row] = count
            else:
                del rows[row]
        return changes


class BacktestViews:
    """The views of a backtest, which change in the order of their definition, as in the live express lane."""

    def __init__(
        self,
        selects: Sequence[NamedSelect],
        kernels: Kernels | None = None,
        given: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Compile the views. ``kernels`` is the source of compiled kernels. ``given`` is the SQL, by name, of the
        configuration's views: a strategy cannot give their names to other views, as if they were in a runtime.

        Raise `ConfigurationError` for SQL that cannot be used.
        """
        self._kernels, self._given = kernels, given
        self.slow: dict[str, str] = {}
        """Reason, by view, why DuckDB recomputes it, which takes about a millisecond per step."""
        self.columns: dict[str, tuple[tuple[str, ...], dict[str, int]]] = {}
        """Names of the columns, by view, and the digits after the point of the columns that are scaled integers."""
        self.types: dict[str, tuple[Column, ...]] = {}
        """Columns with their types, by view."""
        self.sql: dict[str, str] = {}
        """SQL by view."""
        self._groups: list[_Group] = []
        self._group_of: dict[str, _Group] = {}
        self._place: dict[str, int] = {}
        self._users: Counter[str] = Counter()
        """Number of users, by view that was added while the run was going on."""
        self.add(selects, [])

    def __contains__(self, name: str) -> bool:
        return name in self._group_of

    @property
    def reads_time(self) -> bool:
        """True if a view reads `EPOCH_TIME`."""
        return any(EPOCH_TIME.name in group.reads for group in self._groups)

    def add(self, selects: Sequence[NamedSelect], deltas: list[Delta]) -> None:
        """Add views; ``deltas`` are the rows that exist already.

        Raise `ConfigurationError` for a view that cannot be compiled, or whose name a runtime would refuse.
        """
        for select in selects:
            if not is_view_name(select.name):
                raise ConfigurationError(
                    f"expected the name of a view in lower case without blanks, was {select.name!r}"
                )
        standing = [view for group in self._groups for view in group.views if view.name in self._group_of]
        group = _Group(selects, standing, self._kernels)
        if deltas:
            group.step(deltas)
        self._groups.append(group)
        self.slow |= group.slow
        for view in group.views:
            self._group_of[view.name] = group
            self._place[view.name] = len(self._place)
            self.sql[view.name] = view.sql
            scales = {column.name: column.scale for column in view.columns if column.scale}
            self.types[view.name] = view.columns
            self.columns[view.name] = tuple(column.name for column in view.columns), scales

    def request(self, name: str, sql: str, rows: Callable[[], list[Delta]]) -> None:
        """Add a view for one more user; ``rows`` returns the rows that exist already, if the view is new.

        Raise `ConfigurationError` for a view that cannot be compiled, or whose name has other SQL.
        """
        existing = self.sql[name] if name in self else self._given.get(name, sql)
        if not same_sql(existing, sql):
            raise ConfigurationError(f"expected the SQL that {name} has, was another")
        if name not in self:
            self.add([NamedSelect(name, sql, lane="express")], rows())
            self._users[name] = 1
        elif name in self._users:
            self._users[name] += 1

    def release(self, name: str) -> None:
        """End the use of a view by the caller of `request`; without users, a view that was added there is dropped."""
        if name not in self._users:
            return
        self._users[name] -= 1
        if not self._users[name]:
            del self._users[name]
            self._groups.remove(self._group_of.pop(name))

    def keep_no_rows(self) -> None:
        """Stop keeping the rows of the present views: `snapshot` is not called for them again."""
        for group in self._groups:
            group.keeps_rows = False

    def snapshot(self, name: str) -> tuple[list[Row], list[int]]:
        """Return a view's present rows, and how often each occurs."""
        rows = self._group_of[name].result(name)
        return list(rows), list(rows.values())

    def step(self, deltas: list[Delta]) -> list[Change]:
        """Apply deltas that come together, and return the changes by view."""
        groups = self._groups
        return self._by_view(
            groups[0].step(deltas) if len(groups) == 1 else [c for group in groups for c in group.step(deltas)]
        )

    def driven(self) -> DrivenGraph | None:
        """Return the graph of all views for a kernel whose changes are passed to `enter_changes`; None if there is no
        such graph.
        """
        graph = self._groups[0].driven() if len(self._groups) == 1 else None
        if graph is not None:
            graph.loop.watch(self.columns)
        return graph

    def await_kernels(self, steps: float) -> None:
        """Wait for compiled kernels, but not longer than ``steps`` steps would take with interpreted kernels, and at
        most a minute.
        """
        if self._kernels is not None:
            sources = [source for group in self._groups for source in group.sources()]
            self._kernels.wait(sources, min(_LONGEST_WAIT_S, steps * _INTERPRETED_S))

    def enter_changes(self, changes: list[tuple[str, Row, int]]) -> list[Change]:
        """Return, by view, the changes that the kernel of `driven` has computed; raise `ConfigurationError` if a view
        has failed.
        """
        return self._by_view(self._groups[0].enter_changes(changes))

    def _by_view(self, changes: list[tuple[str, Row, int]]) -> list[Change]:
        if not changes:
            return []
        first = changes[0][0]
        if changes[-1][0] == first and (len(changes) <= 2 or len({change[0] for change in changes}) == 1):
            return [(first, [change[1] for change in changes], [change[2] for change in changes])]
        by_view: dict[str, Change] = {}
        for view, row, number in changes:
            change = by_view.get(view)
            if change is None:
                by_view[view] = (view, [row], [number])
            else:
                change[1].append(row)
                change[2].append(number)
        place = self._place
        return sorted(by_view.values(), key=lambda change: place[change[0]])


def _compiled(selects: Sequence[NamedSelect], standing: Sequence[View]) -> Program:
    try:
        return compile_program(selects, MARKET_RELATIONS, standing=standing)
    except SqlError as error:
        raise ConfigurationError(str(error)) from error


class ViewedRun(Protocol):
    """Run whose views `RunViews` adds to: a backtest, or one participant of a simulation."""

    @property
    def clock(self) -> SimulatedClock:
        """Clock of the run."""
        ...

    @property
    def views(self) -> BacktestViews:
        """Views of the run."""
        ...

    def seen_rows(self) -> list[Delta]:
        """Return the rows of all relations as additions, in the state that the views have seen: without changes that
        have not arrived yet.

        `EPOCH_TIME` is among the relations from this call on.
        """
        ...

    def show(self, name: str) -> None:
        """Send a snapshot of a view to the strategies that may read it."""
        ...


class RunViews:
    """Adds views to a run, filled with the rows that the other views have seen; the requested lane is ignored.

    Views that belong to a strategy exist from the beginning of the run to its end. ``done`` is called in the next turn
    and never within the call that requests a view, as with a live service.
    """

    def __init__(self, backtest: ViewedRun, shown: Collection[str]) -> None:
        """Create a link of a run; ``shown`` are the views that its strategies are shown when they start."""
        self._backtest = backtest
        self._shown = frozenset(shown)
        self._added: set[str] = set()
        self._pending: dict[str, ScheduledCall] = {}
        """Calls that will add a view."""

    def add(self, view: str, sql: str, lane: Lane, done: Callable[[str], None]) -> None:
        """See `algo_engine.requested.ViewLink.add`."""
        del lane
        self._pending[view] = self._backtest.clock.callLater(0, self._add, view, sql, done)

    def drop(self, view: str) -> None:
        """See `algo_engine.requested.ViewLink.drop`."""
        pending = self._pending.pop(view, None)
        if pending is not None:
            pending.cancel()
        elif view in self._added:
            self._added.remove(view)
            self._backtest.views.release(view)

    def _add(self, view: str, sql: str, done: Callable[[str], None]) -> None:
        backtest = self._backtest
        del self._pending[view]
        try:
            backtest.views.request(view, sql, backtest.seen_rows)
        except ConfigurationError as error:
            done(str(error))
            return
        self._added.add(view)
        done("")
        if view not in self._shown:
            backtest.show(view)
