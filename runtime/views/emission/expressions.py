"""Emits the view program's expressions as kernel source.

Integers are exact: a value that may pass 64 bits is computed in 128, and one that may pass 126 bits is checked. Two
conditions belong to a value: that it is NULL, and that it is out of range. If one of them is true, the value is
undefined but harmless, so that all branches of an expression are computed without jumps. If a value that is out of
range is used, it sets the kernel's variable ``bad``, with which the node fails. A value in a branch of CASE or COALESCE
that is not taken is not used; nor is an operand of AND if the other operand is false, or of OR if the other operand is
true.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final

import msgspec

from runtime.native.plain import bits_of
from runtime.plan import Call, Col, ColumnType, Expr, Lit
from runtime.views.emission.kernel import KernelSource
from runtime.views.emission.values import Value
from runtime.views.errors import ViewError

__all__ = ["Emitter"]

_LIMIT: Final = 126
_LITERAL_DIGITS: Final = 18
"""Number of decimal digits up to which every integer fits a literal of 64 bits."""
_LONGEST_CHAIN: Final = 64
"""Greatest number of branches of one ``if … elif …``: Python nests each branch in the previous one, and its parser
fails above a few thousand.
"""
_COMPARE: Final = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_INTEGERS: Final = frozenset({"int64", "int128"})
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - SQL's TIMESTAMP has no zone
_MICROSECONDS_A_DAY: Final = 86_400_000_000
_MICROSECONDS: Final = {"hour": (3_600_000_000, 24), "minute": (60_000_000, 60), "second": (1_000_000, 60)}


class Emitter:
    """Writes expressions over bound values."""

    def __init__(self, kernel: KernelSource) -> None:
        self._w = kernel

    def value(self, expr: Expr, bound: Mapping[str, Value]) -> Value:
        """Return the value of an expression, marked as used."""
        return self.used(self._value(expr, bound))

    def cast(self, value: Value, type_: ColumnType) -> Value:
        """Return the value in a column's type, marked as used."""
        return self.used(self._cast(value, type_))

    def arithmetic(self, op: str, left: Value, right: Value) -> Value:
        """Return the sum, difference or product of two values, marked as used."""
        return self.used(self._arithmetic(op, left, right))

    def column(self, expr: Expr, bound: Mapping[str, Value], type_: ColumnType) -> Value:
        """Return the value of an expression in a column's type, not yet marked as used: `used` must follow."""
        return self._cast(self._value(expr, bound), type_)

    def used(self, value: Value) -> Value:
        """Return the value, marked as used: from here on its overflow sets ``bad`` for the row."""
        if value.overflow is None:
            return value
        self._w.put(f"bad |= {value.overflow}")
        return msgspec.structs.replace(value, overflow=None)

    def truth(self, expr: Expr, bound: Mapping[str, Value]) -> str:
        """Return a condition that is true where the expression is true, and false where it is false or NULL."""
        value = self.value(expr, bound)
        if value.type is None:
            return "False"
        return value.text if value.null is None else f"({value.text} and not {value.null})"

    def _value(self, expr: Expr, bound: Mapping[str, Value]) -> Value:
        if isinstance(expr, Col):
            try:
                return bound[expr.name]
            except KeyError:
                raise ViewError(f"expected column {expr.name}, was {', '.join(bound)}") from None
        if isinstance(expr, Lit):
            return self._literal(expr.value)
        rule = _RULES.get(expr.op)
        if rule is not None:
            return rule(self, expr, [self._value(argument, bound) for argument in expr.args])
        if expr.op in ("date", "timestamp") and isinstance(expr.args[0], Lit):
            return _moment(expr.op, expr.args[0].value)
        if expr.op == "like":
            return self._like(expr, bound)
        if expr.op == "in":
            return self._in(expr, bound)
        return self._part(expr.op, [self._value(argument, bound) for argument in expr.args])

    def _cast(self, value: Value, type_: ColumnType) -> Value:
        w = self._w
        if value.type is None:
            zero = {"int128": "wide(0)", "float64": "0.0"}.get(type_, "0")
            return Value(zero, type_, "True")
        if value.type == type_:
            return value
        if type_ == "int128" and value.type == "int64":
            return Value(f"wide({value.text})", type_, value.null, value.bits, overflow=value.overflow)
        if type_ == "float64" and value.type in _INTEGERS:
            return self._float(value)
        if type_ == "int64" and value.type == "int128":
            text = w.assign("v", value.text)
            overflow = self._overflow(f"not fits({text})", value.null, [value])
            return Value(f"narrow({text})", type_, value.null, overflow=overflow)
        if {value.type, type_} == {"int64", "bool"}:
            text = value.text if type_ == "int64" else f"({value.text} != 0)"
            return Value(text, type_, value.null, overflow=value.overflow)
        raise ViewError(f"expected a value of type {type_}, was {value.type}")

    def _overflow(self, flag: str | None, null: str | None, values: Sequence[Value]) -> str | None:
        """Return a condition that an operand, or a result that is not NULL, is out of range; None if neither can be.

        An operand that is out of range counts even where the result is NULL, because the NULL flag may depend on it.
        """
        flags = list(dict.fromkeys(value.overflow for value in values if value.overflow is not None))
        if flag is not None:
            flags.append(self._w.assign("o", flag if null is None else f"{flag} and not {null}"))
        if len(flags) < 2:
            return flags[0] if flags else None
        return self._w.assign("o", " | ".join(flags))

    # --- leaves

    def _literal(self, value: object) -> Value:
        if value is None:
            return Value("0", None, "True")
        if isinstance(value, bool):
            return Value("True" if value else "False", "bool")
        if isinstance(value, int):
            if not -(2**63) <= value < 2**63:
                raise ViewError(f"expected a constant of 64 bits, was {value}")
            text = str(value) if value > -(2**63) else "(-9223372036854775807 - 1)"
            return Value(text if value >= 0 else f"({text})", "int64", None, max(1, abs(value).bit_length()))
        if isinstance(value, float):
            return Value(f"float_of({bits_of(value)})", "float64")
        return Value(self._w.number(str(value)), "string")

    def _like(self, expr: Call, bound: Mapping[str, Value]) -> Value:
        text, pattern = self._value(expr.args[0], bound), expr.args[1]
        if not isinstance(pattern, Lit) or not isinstance(pattern.value, str) or text.type is None:
            return Value("False", "bool", "True")
        name = self._w.assign("m", f"{self._w.tested(pattern.value)}[{text.text}] != 0")
        return Value(name, "bool", text.null, overflow=text.overflow)

    def _in(self, expr: Call, bound: Mapping[str, Value]) -> Value:
        """Return a test for a value in a list of constants: a search in a sorted array, or a flag of each string."""
        w, value = self._w, self._value(expr.args[0], bound)
        constants = [item.value for item in expr.args[1:] if isinstance(item, Lit)]
        if value.type is None:
            return Value("False", "bool", "True")
        if value.type == "string":
            text = f"{w.tested(frozenset(str(each) for each in constants))}[{value.text}] != 0"
        else:
            integers = sorted({each for each in constants if isinstance(each, int)})
            w.use("arithmetic", "is_member")
            text = f"is_member({w.integers(integers)}, {len(integers)}, narrow({value.wide_text}))"
            if value.type == "int128":
                text = f"fits({value.text}) and {text}"
        return Value(w.assign("m", text), "bool", value.null, overflow=value.overflow)

    # --- integers and floats

    def _float(self, value: Value) -> Value:
        if value.type == "float64":
            return value
        text = f"wide_float({value.text})" if value.type == "int128" else f"float({value.text})"
        return Value(text, "float64", value.null, overflow=value.overflow)

    def _arithmetic(self, op: str, left: Value, right: Value) -> Value:
        null = self.either((left, right))
        if left.type is None or right.type is None:
            return Value("0", None, "True")
        symbol = {"add": "+", "sub": "-", "mul": "*"}[op]
        if "float64" in (left.type, right.type):
            a, b = self._float(left), self._float(right)
            text = self._w.assign("x", f"{a.text} {symbol} {b.text}")
            return Value(text, "float64", null, overflow=self._overflow(None, null, (left, right)))
        bits = left.bits + right.bits if op == "mul" else max(left.bits, right.bits) + 1
        if bits <= _LIMIT:
            overflow = self._overflow(None, null, (left, right))
            if bits <= 62:
                texts = (f"narrow({v.text})" if v.type == "int128" else v.text for v in (left, right))
                return Value(self._w.assign("x", f" {symbol} ".join(texts)), "int64", null, bits, overflow=overflow)
            text = self._w.assign("x", f"{left.wide_text} {symbol} {right.wide_text}")
            return Value(text, "int128", null, bits, overflow=overflow)
        name = self._w.name("x")
        if op == "mul":
            flag = self._w.name("f")
            self._w.put(f"{name}, {flag} = product({left.wide_text}, {right.wide_text})")
        else:
            self._w.put(f"{name} = {left.wide_text} {symbol} {right.wide_text}")
            flag = f"outside({name})"
        return Value(name, "int128", null, _LIMIT, overflow=self._overflow(flag, null, (left, right)))

    def either(self, values: Sequence[Value]) -> str | None:
        """Return a condition that is true if one of the values is NULL; None if none can be."""
        flags = list(dict.fromkeys(value.null for value in values if value.null is not None))
        if not flags:
            return None
        if len(flags) == 1:
            return flags[0]
        return self._w.assign("n", " or ".join(f"({each} != 0)" if each[0] == "n" else each for each in flags))

    def _folded(self, expr: Call, args: list[Value]) -> Value:
        value = args[0]
        for other in args[1:]:
            value = self._arithmetic(expr.op, value, other)
        return value

    def _negated(self, expr: Call, args: list[Value]) -> Value:
        (value,) = args
        if value.type == "float64":
            return Value(f"(-{value.text})", "float64", value.null, overflow=value.overflow)
        return self._arithmetic("sub", Value("0", "int64", None, 1), value)

    def _with_digits(self, expr: Call, args: list[Value]) -> Value:
        """Return the integer argument; it is out of range if it has more decimal digits than the constant allows."""
        (value, _), (_, most) = args, expr.args
        assert isinstance(most, Lit)
        digits = most.value
        assert isinstance(digits, int)
        if value.type is None or 2**value.bits <= 10**digits:
            return value
        powers = [10 ** min(digits - place, _LITERAL_DIGITS) for place in range(0, digits, _LITERAL_DIGITS)] or [1]
        text = self._w.assign("x", value.wide_text)
        limit = self._w.assign("d", " * ".join(f"wide({power})" for power in powers))
        flag = f"({text} >= {limit} or {text} <= wide(0) - {limit})"
        overflow = self._overflow(flag, value.null, [value])
        return Value(text, "int128", value.null, min(value.bits, (10**digits).bit_length()), overflow=overflow)

    def _divided(self, expr: Call, args: list[Value]) -> Value:
        left, right = args
        if left.type is None or right.type is None:
            return Value("0", None, "True")
        w, overflow = self._w, self._overflow(None, None, args)
        if expr.op == "div":
            result = w.assign("x", "0.0")
        elif left.bits <= 62 or left.type == right.type == "int64":
            result = w.assign("x", "0" if max(left.bits, right.bits) <= 62 else "wide(0)")
        else:
            result = w.assign("x", "wide(0)")
        if "float64" in (left.type, right.type):
            a, b = self._float(left), self._float(right)
            zero = w.assign("z", f"{b.text} == 0.0")
            with w.block(f"if not {zero}:"):
                w.put(f"{result} = {a.text} / {b.text}")
            return Value(result, "float64", self.either((left, right, Value("", None, zero))), overflow=overflow)
        divisor = w.assign("d", right.wide_text)
        zero = w.assign("z", f"{divisor} == wide(0)")
        kind: ColumnType = "int128"
        with w.block(f"if not {zero}:"):
            if expr.op == "div":
                w.put(f"{result} = float_quotient({left.wide_text}, {divisor})")
                kind = "float64"
            else:
                function = "quotient" if expr.op == "floordiv" else "remainder"
                value = f"{function}({left.wide_text}, {divisor})"
                if left.bits <= 62 and right.bits <= 62:
                    kind, value = "int64", f"narrow({value})"
                w.put(f"{result} = {value}")
        null = None if right.text == str(_constant(right)) and _constant(right) else zero
        bits = left.bits if expr.op == "floordiv" else min(left.bits, right.bits)
        return Value(result, kind, self.either((left, right, Value("", None, null))), bits, overflow=overflow)

    # --- truth values

    def _compared(self, expr: Call, args: list[Value]) -> Value:
        left, right = args
        if left.type is None or right.type is None:
            return Value("False", "bool", "True")
        symbol = _COMPARE[expr.op]
        null, overflow = self.either((left, right)), self._overflow(None, None, args)
        if "float64" in (left.type, right.type) and left.type != right.type:
            left, right = self._float(left), self._float(right)
        if left.type == "int128" or right.type == "int128":
            text = f"{left.wide_text} {symbol} {right.wide_text}"
        elif left.type == "string" and expr.op not in ("eq", "ne"):
            ranks = self._w.ranks()
            text = f"{ranks}[{left.text}] {symbol} {ranks}[{right.text}]"
        elif left.type == "float64":
            text = self._compared_floats(expr.op, left.text, right.text)
        else:
            text = f"{left.text} {symbol} {right.text}"
        return Value(self._w.assign("b", text), "bool", null, overflow=overflow)

    def _compared_floats(self, op: str, left: str, right: str) -> str:
        """Return the source of a comparison in SQL's order: NaN equals itself and is greater than other floats."""
        function = "float_equal" if op in ("eq", "ne") else "float_less"
        self._w.use("arithmetic", function)
        if op in ("gt", "le"):
            left, right = right, left
        return f"{'not ' if op in ('ne', 'le', 'ge') else ''}{function}({left}, {right})"

    def _logic(self, expr: Call, args: list[Value]) -> Value:
        value = args[0]
        for other in args[1:]:
            value = self._connected(expr.op, value, other)
        return value

    def _connected(self, op: str, left: Value, right: Value) -> Value:
        """Return ``left AND right`` or ``left OR right``, in three-valued logic."""
        w = self._w
        left, right = (self._cast(v, "bool") for v in (left, right))
        if all(each is None for each in (left.null, right.null, left.overflow, right.overflow)):
            return Value(w.assign("b", f"({left.text}) {op} ({right.text})"), "bool")
        # There are three outcomes: the value of an operand that decides (false for AND, true for OR); otherwise NULL if
        # either operand is NULL; otherwise the opposite value. An operand that is out of range does not decide.
        decides = "not " if op == "and" else ""
        settled = []
        for value in (left, right):
            tests = [f"not {each}" for each in (value.null, value.overflow) if each is not None]
            settled.append(f"({' and '.join([*tests, f'{decides}({value.text})'])})")
        decided = w.assign("b", " or ".join(settled))
        null = overflow = None
        if left.null is not None or right.null is not None:
            null = w.assign("n", f"not {decided} and ({self._unknown(left)} or {self._unknown(right)})")
        if left.overflow is not None or right.overflow is not None:
            overflow = w.assign("o", f"not {decided} and ({left.overflow or False} or {right.overflow or False})")
        return Value(w.assign("b", decided if op == "or" else f"not {decided}"), "bool", null, overflow=overflow)

    @staticmethod
    def _unknown(value: Value) -> str:
        return "False" if value.null is None else f"({value.null} != 0)" if value.null[0] == "n" else value.null

    def _not(self, expr: Call, args: list[Value]) -> Value:
        value = self._cast(args[0], "bool")
        return Value(self._w.assign("b", f"not ({value.text})"), "bool", value.null, overflow=value.overflow)

    def _is_null(self, expr: Call, args: list[Value]) -> Value:
        return Value(self._w.assign("b", f"{self._unknown(args[0])}"), "bool", overflow=args[0].overflow)

    # --- choices

    def _alike(self, values: Sequence[Value]) -> list[Value]:
        """Return the values in one type: integers as wide as the widest, a bare NULL in the type of the others."""
        types = [value.type for value in values if value.type is not None]
        if not types:
            return list(values)
        target = "float64" if "float64" in types else "int128" if "int128" in types else types[0]
        return [self._cast(value, target) for value in values]

    def _choice(self, values: Sequence[Value], tests: Sequence[str | None], overflows: Sequence[str | None]) -> Value:
        """Return the first value whose test holds; the last has no test.

        ``overflows`` has for each test the condition that the test is out of range; this condition counts if no earlier
        test holds.
        """
        w = self._w
        values = self._alike(values)
        if values[0].type is None or tests[0] is None:
            return values[0]
        if len(values) > _LONGEST_CHAIN + 1:
            head = slice(0, _LONGEST_CHAIN)
            others = self._choice(values[_LONGEST_CHAIN:], tests[_LONGEST_CHAIN:], overflows[_LONGEST_CHAIN:])
            values, tests = [*values[head], others], [*tests[head], None]
            overflows = [*overflows[head], None]
        is_nullable = any(value.null is not None for value in values)
        result, null, overflow = w.name("c"), w.name("n") if is_nullable else None, None
        if any(each is not None for each in (*overflows, *(value.overflow for value in values))):
            overflow = w.name("o")
        reached: list[str] = []
        for place, (value, test, wrong) in enumerate(zip(values, tests, overflows, strict=True)):
            reached += [] if wrong is None else [wrong]
            with w.block("else:" if test is None else f"elif {test}:" if place else f"if {test}:"):
                w.put(f"{result} = {value.text}")
                if null is not None:
                    w.put(f"{null} = 1 if {self._unknown(value)} else 0")
                if overflow is not None:
                    w.put(f"{overflow} = {' | '.join([*reached, value.overflow or 'False'])}")
        bits = max(value.bits for value in values)
        return Value(result, values[0].type, null, bits, overflow=overflow)

    def _coalesce(self, expr: Call, args: list[Value]) -> Value:
        kept = []
        for value in args:
            kept.append(value)
            if value.null is None:
                break
        tests = [None if place == len(kept) - 1 else f"not {self._unknown(value)}" for place, value in enumerate(kept)]
        return self._choice(kept, tests, [value.overflow for value in kept])

    def _case(self, expr: Call, args: list[Value]) -> Value:
        conditions = [self._cast(condition, "bool") for condition in args[:-1:2]]
        tests = [c.text if c.null is None else f"({c.text}) and not {self._unknown(c)}" for c in conditions]
        overflows = [condition.overflow for condition in conditions]
        return self._choice([*args[1::2], args[-1]], [*tests, None], [*overflows, None])

    def _extreme(self, expr: Call, args: list[Value]) -> Value:
        """Return the value of LEAST or GREATEST, which ignore NULL."""
        w = self._w
        op = "lt" if expr.op == "least" else "gt"
        symbol = _COMPARE[op]
        values = self._alike([value for value in args if value.type is not None])
        if not values:
            return args[0]
        best, null = values[0], values[0].null
        for value in values[1:]:
            result, flag = w.name("c"), w.name("n")
            if value.type == "string":
                ranks = self._w.ranks()
                better = f"{ranks}[{value.text}] {symbol} {ranks}[{best.text}]"
            elif value.type == "float64":
                better = self._compared_floats(op, value.text, best.text)
            else:
                better = f"{value.text} {symbol} {best.text}"
            unknown = "False" if null is None else self._unknown(Value("", None, null))
            with w.block(f"if {self._unknown(value)}:"):
                w.put(f"{result} = {best.text}", f"{flag} = 1 if {unknown} else 0")
            with w.block(f"elif {unknown} or {better}:"):
                w.put(f"{result} = {value.text}", f"{flag} = 0")
            with w.block("else:"):
                w.put(f"{result} = {best.text}", f"{flag} = 0")
            bits = max(best.bits, value.bits)
            null = flag if null is not None and value.null is not None else None
            best = Value(result, value.type, null, bits)
        return msgspec.structs.replace(best, overflow=self._overflow(None, None, values))

    # --- functions

    def _root(self, expr: Call, args: list[Value]) -> Value:
        value = self._cast(args[0], "float64")
        text = self._w.assign("x", f"square_root({value.text})")
        return Value(text, "float64", value.null, overflow=value.overflow)

    def _part(self, op: str, args: list[Value]) -> Value:
        (value,) = args
        if value.type is None:
            return value
        if op == "timestamp" and value.type == "date":
            return self._midnight(value)
        if op == "timestamp" and value.type == "int128":
            value = self._cast(value, "int64")
        return msgspec.structs.replace(self._part_of(op, value), overflow=value.overflow)

    def _midnight(self, day: Value) -> Value:
        """Return the timestamp at which a date begins; it may be out of range, because dates have a wider range."""
        text = self._w.assign("x", f"wide({day.text}) * wide({_MICROSECONDS_A_DAY})")
        overflow = self._overflow(f"not fits({text})", day.null, [day])
        return Value(f"narrow({text})", "timestamp", day.null, overflow=overflow)

    def _part_of(self, op: str, value: Value) -> Value:
        if op == "date":
            text = f"day_of({value.text})" if value.type == "timestamp" else value.text
            return Value(text, "date", value.null)
        if op == "timestamp":
            return Value(value.text, "timestamp", value.null)
        if op in _MICROSECONDS:
            unit, count = _MICROSECONDS[op]
            text = "0" if value.type == "date" else self._w.assign("p", f"clock({value.text}, {unit}, {count})")
            return Value(text, "int64", value.null, 7)
        day = value.text if value.type == "date" else f"day_of({value.text})"
        part = {"year": 0, "month": 1, "day": 2}[op]
        return Value(self._w.assign("p", f"civil({day}, {part})"), "int64", value.null, 20)


def _constant(value: Value) -> int | None:
    text = value.text.strip("()")
    return int(text) if value.type == "int64" and text.lstrip("-").isdigit() else None


def _moment(op: str, text: object) -> Value:
    """Return a literal date or timestamp."""
    if text is None:
        return Value("0", "date" if op == "date" else "timestamp", "True")
    read = datetime.fromisoformat(str(text))
    if op == "date":
        number = (date(read.year, read.month, read.day) - _EPOCH.date()).days
    else:
        delta = read - _EPOCH
        number = (delta.days * 86400 + delta.seconds) * 1_000_000 + delta.microseconds
    return Value(str(number) if number >= 0 else f"({number})", "date" if op == "date" else "timestamp")


_RULES: Final[dict[str, Callable[[Any, Call, list[Value]], Value]]] = {
    **dict.fromkeys(("add", "sub", "mul"), Emitter._folded),
    "neg": Emitter._negated,
    **dict.fromkeys(("floordiv", "mod", "div"), Emitter._divided),
    **dict.fromkeys(_COMPARE, Emitter._compared),
    **dict.fromkeys(("and", "or"), Emitter._logic),
    "not": Emitter._not,
    "is_null": Emitter._is_null,
    "coalesce": Emitter._coalesce,
    "case": Emitter._case,
    **dict.fromkeys(("least", "greatest"), Emitter._extreme),
    "sqrt": Emitter._root,
    "digits": Emitter._with_digits,
}
