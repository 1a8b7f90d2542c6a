"""Joined and selected views in words."""

from __future__ import annotations

from runtime.compiler.notation import expression, product, terms
from runtime.compiler.program import (
    Auxiliary,
    Factor,
    Joined,
    Lookup,
    Map,
    Nested,
    Program,
    Range,
    Selected,
    Statement,
)

__all__ = ["joined_lines", "selected_lines"]

_SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def joined_lines(program: Program, body: Joined) -> list[str]:
    """The maps of joins, and what a change of each relation does to them."""
    lines = ["relations:", *(_occurrence(one.alias, program.maps[one.map]) for one in body.occurrences)]
    lines.append("maps of joins:")
    for auxiliary in body.auxiliaries:
        keys = ", ".join(f"{name} {kind}" for name, kind in auxiliary.keys)
        lines.append(f"  {auxiliary.name}[{keys}] of {' ⋈ '.join(auxiliary.covers)}")
    for occurrence in body.occurrences:
        lines.append(f"on a change of {occurrence.alias}, for each of its keys:")
        for auxiliary in body.auxiliaries:
            for statement in auxiliary.statements:
                if statement.occurrence == occurrence.alias:
                    lines += [f"  {line}" for line in _statement(auxiliary, statement)]
    return lines


def _occurrence(alias: str, part: Map) -> str:
    return f"  {alias} = map {part.id}[{', '.join(key.name for key in part.keys)}]"


def _statement(auxiliary: Auxiliary, statement: Statement) -> list[str]:
    target = f"{auxiliary.name}[{', '.join(statement.keys)}]"
    lines = [f"{target}.{name} += {terms(parts)}" for name, parts in zip(auxiliary.sums, statement.sums, strict=True)]
    lines.append(f"{target}.weight += {product(statement.weight)}")
    for place, lookup in enumerate(statement.lookups):
        lines.append(f"  {'and  ' if place else 'where'} {_lookup(lookup)}")
    if statement.where is not None:
        lines.append(f"  if {expression(statement.where)}")
    return lines


def _lookup(lookup: Lookup) -> str:
    conditions = [f"{key} = {column}" for key, column in lookup.on]
    source = lookup.name if lookup.auxiliary else f"map {lookup.source}"
    if lookup.ordered is not None:
        conditions.append(" or ".join(_range(lookup.ordered, part) for part in lookup.ranges))
    inside = f"[{', '.join(conditions)}]" if conditions else ""
    if lookup.binds:
        return f"{lookup.name} = each {', '.join(lookup.binds)} of {source}{inside}"
    return f"{lookup.name} = Σ {source}{inside}"


def _range(key: str, part: Range) -> str:
    text = key
    if part.low is not None and part.high is None:
        text = f"{key} {'>' if part.low_strict else '>='} {expression(part.low, 5)}"
    elif part.low is not None:
        text = f"{expression(part.low, 5)} {'<' if part.low_strict else '<='} {key}"
    if part.high is not None:
        text += f" {'<' if part.high_strict else '<='} {expression(part.high, 5)}"
    return text if part.sign == 1 else f"less {text}"


def selected_lines(program: Program, body: Selected) -> list[str]:
    """Scalars, and what of each relation is selected; then the sums over the product."""
    lines = [f"m{number} = the one group of map {number}" for number in body.scalars]
    for factor in body.factors:
        lines += _factor(program, factor)
    each = f" for each {', '.join(body.keys)}" if body.keys else ""
    lines.append(f"sums over the product{each}:")
    lines += [f"  {name} = {terms(parts)}" for name, parts in body.sums]
    return lines


def _factor(program: Program, factor: Factor) -> list[str]:
    keys = ", ".join(key.name for key in program.maps[factor.map].keys)
    if factor.ordered is None:
        return [f"{factor.alias} = all of map {factor.map}[{keys}]"]
    how = "found by bisection" if factor.monotone else "every one looked at"
    lines = [f"{factor.alias} = map {factor.map}[{keys}] where {factor.ordered} ({how}) has"]
    lines += [f"  {expression(condition)}" for condition in factor.conditions]
    lines += [f"  with {_nested(nested)}" for nested in factor.nested]
    return lines


def _nested(nested: Nested) -> str:
    return (
        f"{nested.name} = Σ map {nested.map}[{nested.ordered} {_SIGNS[nested.compare]} {expression(nested.value, 5)}]"
    )
