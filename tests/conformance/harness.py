"""Compares the views of one question with the oracle, version by version of a stream, on several numbers of shards.

Meanwhile the shards are killed and restored as under Spark. Memory is lost between two versions, or within one, after
some shards have taken their step and some of these have saved it; then the version is repeated from the saves before
it. The repeated changes must equal the first ones, and the sum of all changes must equal the answer of the oracle.
"""

from __future__ import annotations

import copy
import math
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context
from typing import Literal, cast

import pyarrow as pa
import sqlglot
from sqlglot import exp

from runtime.compiler import Column, NamedSelect, Program, View, compile_program
from runtime.epochs import Segment
from runtime.native.cache import KernelCache
from runtime.plan import EPOCH_TIME
from runtime.state import ARROW_TYPES
from runtime.views import Delivery, deliveries
from runtime.views.code import sources_of
from runtime.views.shard import Inputs, ShardState, Step
from tests.conformance.oracle import Oracle, OracleLimit, at_time, difference, oracle_sql
from tests.conformance.schema import RELATIONS, Row
from tests.conformance.streams import Stream, Version, live_rows, random_stream, shrunken
from tests.generators.deltas import FakeSegment, delta_table

__all__ = ["Mismatch", "Mode", "Outcome", "Question", "case_stream", "check", "compiled", "explain_failure"]

Mode = Literal["sql", "dbtoaster"]
_TYPES: dict[str, set[str]] = {
    "int": {"int64", "int128"},
    "DOUBLE": {"float64"},
    "VARCHAR": {"string"},
    "BOOLEAN": {"bool"},
    "DATE": {"date"},
    "TIMESTAMP": {"timestamp"},
}
_EXACT = Context(prec=80)
_SPARE_KEYS = 2
"""Largest number of keys of a table in a shard while no row is live: those of a result without GROUP BY."""


class Mismatch(Exception):
    """The rows of a view differ from the oracle's, or a view breaks a rule."""


@dataclass(frozen=True)
class Question:
    """Queries that become the views of one program."""

    queries: Mapping[str, str]
    """View → SQL."""
    mode: Mode = "sql"
    """Mode of the compiler, which determines SUM over no rows."""


@dataclass
class Outcome:
    """Figures of a check."""

    versions: int = 0
    """Number of versions of a view that were compared with the oracle."""
    limits: int = 0
    """Number of versions that were not compared, since a number was too large for the oracle or for the view."""
    rows: int = 0
    """Total number of rows in the oracle's answers."""


def compiled(question: Question) -> Program:
    """Return the program of a question; raise `SqlError` for an unsupported query."""
    selects = [NamedSelect(name, sql) for name, sql in question.queries.items()]
    return compile_program(selects, RELATIONS, mode=question.mode)


def case_stream(program: Program, seed: int) -> tuple[Stream, tuple[int, ...]]:
    """Return the stream and the numbers of shards that a seed determines."""
    rng = random.Random(seed)
    shards = rng.choice(((1,), (2,), (3,), (1, 3)))
    return random_stream(rng, program.relations, versions=rng.randint(3, 6), early=rng.random() < 0.15), shards


@dataclass
class _Deployment:
    """All shards of a program, their saved state, and the sums of their changes."""

    program: Program
    shards: int
    kernels: KernelCache | None = None
    """Cache that compiles every kernel before the first step; None: kernels are interpreted."""
    states: list[ShardState] = field(default_factory=list)
    runs: list[list[bytes]] = field(default_factory=list)
    results: dict[str, Counter[Row]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kernels is not None:
            failures = self.kernels.compile_now(sources_of(self.program, self._inputs, self.shards)).failures
            if failures:
                raise Mismatch(f"expected kernels that can be compiled: {failures}")
        self.states = self._fresh()
        self.runs = [[] for _ in range(self.shards)]
        self.results = {view.name: Counter() for view in self.program.views}

    def step(self, version: Version, rng: random.Random | None) -> dict[str, str]:
        """Apply one version, perhaps with a failure before or within it; return the failed views with the reasons."""
        delivered = self._deliveries(version, rng)
        fault = "" if rng is None else rng.choices(("", "restart", "base", "lost"), (5, 2, 1, 2))[0]
        if fault == "base":
            self.runs = [[state.save_all()] for state in self.states]
        if fault == "restart" or (fault == "base" and rng is not None and rng.random() < 0.5):
            self._restore()
        lost: list[dict[str, pa.Table]] = []
        if fault == "lost":
            assert rng is not None
            for shard in range(rng.randint(1, self.shards)):
                step = self._step(self.states[shard], shard, version, delivered)
                lost.append(step.changes)
                if rng.random() < 0.5:
                    self.states[shard].save()
            self._restore()
        failed: dict[str, str] = {}
        for shard, state in enumerate(self.states):
            step = self._step(state, shard, version, delivered)
            self.runs[shard].append(state.save())
            failed |= step.failed
            if shard < len(lost):
                self._same(lost[shard], step.changes)
            for name, changes in step.changes.items():
                self._add(name, changes)
        return failed

    @property
    def _inputs(self) -> Inputs:
        return "relations" if self.shards == 1 else "payloads"

    def _fresh(self) -> list[ShardState]:
        states = [
            ShardState(self.program, shard, self.shards, inputs=self._inputs, kernels=self.kernels)
            for shard in range(self.shards)
        ]
        if self.kernels is not None and not all(state.is_compiled for state in states):
            raise Mismatch("expected compiled kernels in every node")
        return states

    def _step(self, state: ShardState, shard: int, version: Version, delivered: Sequence[Delivery]) -> Step:
        if self.shards > 1:
            return state.step([(d.part, d.deltas) for d in delivered if d.shard == shard])
        changes: dict[str, list[tuple[Row, int]]] = {}
        for segment in version:
            for name, row, weight in segment:
                changes.setdefault(name, []).append((row, weight))
        known = {relation.name: relation for relation in (*RELATIONS, EPOCH_TIME)}
        return state.step_tables({name: delta_table(known[name], rows) for name, rows in changes.items()})

    def held(self) -> dict[str, int]:
        """Return the number of keys in each table of state, over all shards."""
        found: Counter[str] = Counter()
        for state in self.states:
            found.update(state.records())
        return dict(found)

    def _deliveries(self, version: Version, rng: random.Random | None) -> list[Delivery]:
        given = []
        for segment in version:
            by_name: dict[str, list[tuple[Row, int]]] = {}
            for name, row, weight in segment:
                by_name.setdefault(name, []).append((row, weight))
            given.append(cast(Segment, FakeSegment((*RELATIONS, EPOCH_TIME), by_name)))
        # Segments may be partitions of their own.
        parts = [[one] for one in given] if rng is not None and rng.random() < 0.5 else [given]
        found = [delivery for part in parts for delivery in deliveries(self.program, part, self.shards, self.kernels)]
        if rng is not None:
            rng.shuffle(found)
        return found

    def _restore(self) -> None:
        """Replace the states by new ones, restored from what was saved."""
        self.states = self._fresh()
        for state, runs in zip(self.states, self.runs, strict=True):
            for run in runs:
                state.apply_run(run)

    def _same(self, lost: Mapping[str, pa.Table], again: Mapping[str, pa.Table]) -> None:
        for name in lost.keys() | again.keys():
            one, other = (_rows(changes[name]) if name in changes else Counter[Row]() for changes in (lost, again))
            wrong = difference(+one, +other) or difference(-one, -other)
            if wrong:
                raise Mismatch(f"a repeated step has other changes: {name}\n{wrong}")

    def _add(self, name: str, changes: pa.Table) -> None:
        columns = next(view.columns for view in self.program.views if view.name == name)
        types = [*(ARROW_TYPES[column.type] for column in columns), pa.int64()]
        if changes.schema.types != types:
            raise Mismatch(f"{name}: expected changes of types {types}, was {changes.schema.types}")
        found = _rows(changes)
        if len(found) != changes.num_rows or 0 in found.values():
            raise Mismatch(f"{name}: expected every changed row once and none for nothing, was {changes.to_pylist()}")
        result = self.results[name]
        for row, weight in found.items():
            result[row] += weight
            if not result[row]:
                del result[row]

    def result(self, name: str, columns: Sequence[Column]) -> Counter[Row]:
        """Return the rows of a view in the form of the oracle: scaled integers as decimals."""
        return Counter({_plain(name, row, columns): count for row, count in self.results[name].items()})


def _whole(question: Question, name: str) -> str:
    """Return a query in which the earlier views that it reads are tables of WITH."""
    before = list(question.queries)[: list(question.queries).index(name)]
    sql = question.queries[name]
    needed: list[str] = []
    text = sql
    for other in reversed(before):
        if re.search(rf"\b{other}\b", text):
            needed.insert(0, f"{other} AS ({question.queries[other]})")
            text += question.queries[other]
    return f"WITH {', '.join(needed)} SELECT * FROM ({sql})" if needed else sql


def _rows(changes: pa.Table) -> Counter[Row]:
    """Return the rows with their weights, which may be negative; every NaN is one object, so that equal rows are
    equal keys.
    """
    lists = [column.to_pylist() for column in changes.columns]
    found: Counter[Row] = Counter()
    for *values, weight in zip(*lists, strict=True):
        found[tuple([math.nan if value != value else value for value in values])] += weight  # noqa: PLR0124 (NaN alone)
    return found


def _plain(name: str, row: Row, columns: Sequence[Column]) -> Row:
    values = []
    for value, column in zip(row, columns, strict=True):
        if value is None and not column.nullable:
            raise Mismatch(f"{name}: expected no NULL in {column.name}, was {row}")
        is_scaled = column.scale and value is not None
        values.append(_EXACT.scaleb(_EXACT.create_decimal(value), -column.scale) if is_scaled else value)
    return tuple(values)


def _check_types(view: View, types: Sequence[str]) -> None:
    for column, kind in zip(view.columns, types, strict=True):
        plain = "int" if kind.startswith("DECIMAL") or kind.endswith("INT") or kind == "INTEGER" else kind
        if column.type not in _TYPES.get(plain, {column.type}):
            raise Mismatch(f"{view.name}: expected the type {kind} in column {column.name}, was {column.type}")


def check(
    question: Question,
    stream: Stream,
    oracle: Oracle,
    *,
    shards: Sequence[int] = (1,),
    seed: int | None = None,
    program: Program | None = None,
    kernels: KernelCache | None = None,
) -> Outcome:
    """Apply a stream and compare the views after every version; raise `Mismatch` for a difference.

    Without a seed no shard is killed. With kernels everything runs interpreted and compiled, and both tiers must save
    the same bytes.
    """
    program = compiled(question) if program is None else program
    tiers = [None] if kernels is None else [None, kernels]
    rngs = [None if seed is None else random.Random(seed) for _ in tiers]
    # Each tier has a copy of the program, since the functions that sum deltas are stored in it once compiled.
    by_tier = [[_Deployment(copy.copy(program), number, tier) for number in shards] for tier in tiers]
    deployments = [deployment for tier in by_tier for deployment in tier]
    asked = {name: _whole(question, name) for name in question.queries}
    outcome = Outcome()
    given_up: set[str] = set()
    stale = {relation.name for relation in program.relations}
    is_huge = _has_huge_numbers(stream)
    held: dict[str, Counter[Row]] = {}
    for number, (version, held) in enumerate(zip(stream.versions, live_rows(stream), strict=True), 1):
        for deployment, rng in [
            (deployment, rng) for tier, rng in zip(by_tier, rngs, strict=True) for deployment in tier
        ]:
            for name, reason in deployment.step(version, rng).items():
                if not (is_huge and "expected" in reason):
                    raise Mismatch(f"version {number}, {deployment.shards} shards: {name} failed: {reason}")
                given_up.add(name)
        for interpreted, other in zip(by_tier[0], by_tier[-1], strict=True):
            if other.runs != interpreted.runs:
                raise Mismatch(f"version {number}, {other.shards} shards: the tiers have saved different bytes")
        stale |= {entry[0] for segment in version for entry in segment}
        if any(count < 0 for rows in held.values() for count in rows.values()):
            continue  # no table has a negative number of rows, so the oracle has no answer
        for name in stale - {EPOCH_TIME.name}:
            oracle.fill(name, held.get(name, {}))
        stale.clear()
        for view in program.views:
            now = next(iter(held.get(EPOCH_TIME.name, ())), None)
            sql = oracle_sql(at_time(asked[view.name], now), question.mode)
            if view.name not in given_up and not _compare(view, sql, oracle, deployments, outcome, number):
                given_up.add(view.name)
            outcome.limits += view.name in given_up
    if not given_up and not any(held.values()):
        _check_empty(deployments, asked)
    return outcome


def _has_huge_numbers(stream: Stream) -> bool:
    rows = (row for version in stream.versions for segment in version for name, row, _ in segment
            if name != EPOCH_TIME.name)  # fmt: skip
    return any(isinstance(value, int) and abs(value) > 2**60 for row in rows for value in row)


def _compare(
    view: View, sql: str, oracle: Oracle, deployments: Sequence[_Deployment], outcome: Outcome, number: int
) -> bool:
    """Compare a view with the oracle; return False if the oracle has no answer. Raise `Mismatch` for a difference."""
    try:
        types, expected = oracle.ask(sql)
    except OracleLimit:
        return False
    _check_types(view, types)
    outcome.versions += 1
    outcome.rows += expected.total()
    for deployment in deployments:
        negative = {row: count for row, count in deployment.results[view.name].items() if count < 0}
        if negative:
            raise Mismatch(f"version {number}: {view.name}: rows were removed that did not exist: {negative}")
        wrong = difference(deployment.result(view.name, view.columns), expected)
        if wrong:
            raise Mismatch(f"version {number}, {deployment.shards} shards: {view.name}\n{wrong}")
    return True


def _check_empty(deployments: Sequence[_Deployment], asked: Mapping[str, str]) -> None:
    constants = sum(len(part.expressions) for sql in asked.values()
                    for part in sqlglot.parse_one(sql, read="duckdb").find_all(exp.Values))  # fmt: skip
    for deployment in deployments:
        most = (_SPARE_KEYS * len(asked) + constants) * deployment.shards
        kept = {name: count for name, count in deployment.held().items() if count > most}
        if kept:
            raise Mismatch(f"no row is live, but state is held on {deployment.shards} shards: {kept}")


def explain_failure(
    question: Question, stream: Stream, oracle: Oracle, shards: Sequence[int], seed: int | None, again: str
) -> str:
    """Return the failure in words, with a smaller stream that also fails and the command that repeats the case."""

    def error(candidate: Stream, numbers: Sequence[int], chance: int | None) -> str:
        try:
            check(question, candidate, oracle, shards=numbers, seed=chance)
        except Exception as failure:  # noqa: BLE001 - any failure is made smaller
            return f"{type(failure).__name__}: {failure}"
        return ""

    setting: tuple[Sequence[int], int | None] = (shards, seed)
    for simpler in (((1,), None), *(((number,), None) for number in shards[1:]), *(((n,), seed) for n in shards)):
        if error(stream, *simpler):
            setting = simpler
            break
    small = shrunken(stream, lambda candidate: bool(error(candidate, *setting)))
    program = compiled(question)
    lines = [f"-- {question.mode}", *(f"-- {view.view_class}: {view.reason}\n{view.sql}" for view in program.views)]
    lines += [f"shards {setting[0]}, " + ("nothing killed" if setting[1] is None else f"kills from seed {setting[1]}")]
    return "\n".join([*lines, str(small), error(small, *setting), f"again: {again}"])
