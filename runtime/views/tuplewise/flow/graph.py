"""A view kept by a graph of operators, one step at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from runtime.compiler.program import (
    DistinctNode,
    Expr,
    Flow,
    GroupNode,
    JoinNode,
    Program,
    Relation,
    ScanNode,
    SelectNode,
    SemiNode,
    SetNode,
    UnionNode,
    View,
)
from runtime.views.tuplewise.errors import UnsupportedError
from runtime.views.tuplewise.expressions import converted, expression
from runtime.views.tuplewise.flow.best import Best, BestOperator
from runtime.views.tuplewise.flow.fusing import AnyNode, fused, inputs_of
from runtime.views.tuplewise.flow.groups import Group
from runtime.views.tuplewise.flow.joins import Join, Semi
from runtime.views.tuplewise.flow.operator import Changes, Field, Operator, Row
from runtime.views.tuplewise.flow.outer import Outer, OuterOperator
from runtime.views.tuplewise.flow.sets import Distinct, SetOperation, Union
from runtime.views.tuplewise.flow.top import Top
from runtime.views.tuplewise.source import Source, Value

__all__ = ["FlowKernel"]


class _Loop(Operator):
    """Filter and project: of a relation's rows (a scan) or of another operator's."""

    def __init__(self, given: Sequence[Field], where: Expr | None, outputs: Sequence[tuple[Expr, Field]]) -> None:
        source = Source()
        columns = {field.name: Value(source.name("c"), field.nullable) for field in given}
        names = [value.text for value in columns.values()]
        step, fields = source.name("step"), []
        with source.block(f"def {step}(changes):"):
            source.put("out = []")
            with source.block(f"for ({', '.join(names)}{',' if names else ''}), weight in changes:"):
                if where is not None:
                    chosen = expression(source, where, columns)
                    with source.block(f"if not {chosen.text}:"):  # neither false nor NULL
                        source.put("continue")
                texts = []
                for expr, field in outputs:
                    value = converted(source, expression(source, expr, columns), field.type)
                    texts.append(value.text)
                    fields.append(field._replace(nullable=value.nullable or field.nullable))
                source.put(f"out.append((({', '.join(texts)}{',' if texts else ''}), weight))")
            source.put("return out")
        self.fields = tuple(fields)
        self.step = source.compile()[step]

    def entries(self) -> int:
        return 0


class FlowKernel:
    """The operators of a flow, what they hold, and the view's rows. Not thread-safe: one owner at a time."""

    def __init__(self, view: View, body: Flow, program: Program) -> None:
        """Raises `UnsupportedError`."""
        self._inputs: list[tuple[int, ...]] = []
        self._operators: list[Operator | None] = []
        self._relation_of: dict[int, str] = {}
        relations = {relation.name: relation for relation in program.relations}
        for place, node in enumerate(fused(body.nodes, program)):
            inputs = () if node is None else inputs_of(node)
            self._inputs.append(inputs)
            given = [operator.fields for number in inputs if (operator := self._operators[number]) is not None]
            operator = None
            if isinstance(node, ScanNode):
                self._relation_of[place] = program.maps[node.map].relation
                operator = _scan(node, program, relations)
            elif isinstance(node, Best):
                self._relation_of[place] = node.relation
                operator = BestOperator(node, _fields_of(relations[node.relation]))
            elif node is not None:
                operator = _operator(node, given, zero=program.mode == "dbtoaster")
            self._operators.append(operator)
        last = self._operators[-1]
        if last is None or len(last.fields) != len(view.columns):
            raise UnsupportedError(f"expected {len(view.columns)} columns of view {view.name}")
        self.relations = frozenset(self._relation_of.values())
        """Those that it reads."""
        self.rows: dict[Row, int] = {}
        """The view's rows, each with its number."""
        self._steps: dict[tuple[str, ...], Callable[[Mapping[str, Changes]], Changes | None]] = {}
        self._begin()

    def step(self, deltas: Mapping[str, Changes]) -> Changes:
        """The view's change, each row once, from the changes of relations (those that it does not read are ignored)."""
        function = self._steps.get(tuple(deltas))
        if function is None:
            function = self._steps[tuple(deltas)] = self._compiled(self.relations.intersection(deltas))
        out = function(deltas)
        return self._entered(out) if out else []

    def entries(self) -> int:
        """How many entries are held."""
        return sum(operator.entries() for operator in self._operators if operator is not None)

    def _entered(self, out: Changes) -> Changes:
        """Consolidated, and added to the view's rows."""
        if len(out) > 1 and not (len(out) == 2 and out[0][0] != out[1][0]):
            numbers: dict[Row, int] = {}
            for row, number in out:
                numbers[row] = numbers.get(row, 0) + number
            out = [(row, number) for row, number in numbers.items() if number]
        rows = self.rows
        for row, number in out:
            total = rows.get(row, 0) + number
            if total:
                rows[row] = total
            else:
                del rows[row]
        return out

    def _begin(self) -> None:
        """What stands over nothing: every operator sees the rows of nothing of those before it."""
        changes: list[Changes | None] = []
        for operator, inputs in zip(self._operators, self._inputs, strict=True):
            if operator is None:
                changes.append(None)
                continue
            found = operator.start()
            if any(changes[number] for number in inputs):
                found = [*found, *operator.step(*(changes[number] for number in inputs))]
            changes.append(found or None)
        self._entered(changes[-1] or [])

    def _compiled(self, names: frozenset[str]) -> Callable[[Mapping[str, Changes]], Changes | None]:
        """One function for the steps in which these relations change: the operators that can change, in their order."""
        source = Source()
        step = source.name("step")
        values: list[str] = []
        with source.block(f"def {step}(deltas):"):
            for place, (operator, inputs) in enumerate(zip(self._operators, self._inputs, strict=True)):
                if operator is None:
                    values.append("None")
                    continue
                if place in self._relation_of:
                    relation = self._relation_of[place]
                    if relation in names:
                        function = source.hold("f", operator.step)
                        values.append(source.assign("n", f"{function}(deltas[{source.hold('x', relation)}])").text)
                    else:
                        values.append("None")
                    continue
                given = [values[number] for number in inputs]
                some = [name for name in given if name != "None"]
                if not some:
                    values.append("None")
                    continue
                called = f"{source.hold('f', operator.step)}({', '.join(given)})"
                values.append(source.assign("n", f"{called} if {' or '.join(some)} else None").text)
            source.put(f"return {values[-1]}")
        made: Callable[[Mapping[str, Changes]], Changes | None] = source.compile()[step]
        return made

    def _check(self) -> None:
        """Assert every invariant."""
        for operator in self._operators:
            if operator is not None:
                operator._check()
        assert all(number > 0 for number in self.rows.values())


def _fields_of(relation: Relation) -> list[Field]:
    return [Field(column.name, column.type, column.nullable) for column in relation.columns]


def _scan(node: ScanNode, program: Program, relations: Mapping[str, Relation]) -> Operator:
    map_ = program.maps[node.map]
    given = _fields_of(relations[map_.relation])
    return _Loop(given, map_.where, [(key.expr, Field(key.name, key.type, False)) for key in map_.keys])


def _operator(node: AnyNode, inputs: Sequence[Sequence[Field]], *, zero: bool) -> Operator:
    if isinstance(node, SelectNode):
        fields = [Field(column.name, column.type, False) for column in node.columns]
        return _Loop(inputs[0], node.where, list(zip(node.outputs, fields, strict=True)))
    if isinstance(node, JoinNode):
        return Join(node, inputs[0], inputs[1])
    if isinstance(node, Outer):
        return OuterOperator(node, inputs[0], inputs[1])
    if isinstance(node, SemiNode):
        return Semi(node, inputs[0], inputs[1])
    if isinstance(node, GroupNode):
        return Group(node, inputs[0], zero=zero)
    if isinstance(node, DistinctNode):
        return Distinct(inputs[0])
    if isinstance(node, UnionNode):
        return Union(inputs)
    if isinstance(node, SetNode):
        return SetOperation(node, inputs[0], inputs[1])
    assert not isinstance(node, (ScanNode, Best))
    return Top(node, inputs[0])
