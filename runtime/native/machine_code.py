"""Compiler of kernel source to object code: it translates the source to LLVM's language, and LLVM does the rest.

Kernel source is a small part of Python: functions of integers, floats, truth values and arrays of cells (integers of 64
bits). Functions have assignments, `if`, `while`, `for … in range(…)`, and calls of other functions and of the
primitives of `runtime.native.plain`.

A parameter has the type of its argument, and a variable the type of the values that are assigned to it. So each
function is translated once for each combination of argument types. A function that passes a parameter to `constant` is
also translated once for each value of this parameter. A kernel and all functions that it calls form one LLVM module.
LLVM always inlines functions marked `jit_inline`, never inlines functions marked `jit_apart`, and decides for all
others itself.

numba was used before. Its typing and lowering took 30 s of processor time for the shipped kernels; this module takes
2 s. numba had to be patched so that it did not optimise and link every function separately, and its output took LLVM
four times as long.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import linecache
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any, Final

from runtime.native import machine, plain
from runtime.native.machine import BOOL, CELLS, DOUBLE, INT, NOTHING, WIDE, Operand
from runtime.native.object_code import SYMBOL, target_machine
from runtime.native.tiers import KernelSourceError, plain_kernel

__all__ = ["compile_source", "literal_places"]

_MARKS: Final = {
    "jit": ("linkonce_odr ", "nounwind"),
    "jit_inline": ("internal ", "nounwind alwaysinline"),
    "jit_apart": ("internal ", "nounwind noinline"),
}
"""Name of a decorator → linkage and attributes of the function.

Functions marked `jit` are not private, because LLVM inlines a private function with only one caller, however long the
function is. If the whole `add` of a tree is inlined into the loop over a batch, the loop runs out of registers: the
index of the view PSP then takes 8 % more time.
"""
_WIDTHS: Final = {BOOL: 0, INT: 1, DOUBLE: 2}
"""Types of numbers → rank: in an expression or a variable, a value of a lower rank is converted to a higher one."""
_COMPARE: Final = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "slt", ast.LtE: "sle", ast.Gt: "sgt", ast.GtE: "sge"}
_COMPARE_FLOAT: Final = {ast.Eq: "oeq", ast.NotEq: "une", ast.Lt: "olt", ast.LtE: "ole", ast.Gt: "ogt", ast.GtE: "oge"}
_INTEGER: Final = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "shl",
    ast.RShift: "ashr",
}
_FLOAT: Final = {ast.Add: "fadd", ast.Sub: "fsub", ast.Mult: "fmul", ast.Div: "fdiv"}
_BITWISE: Final = (ast.BitAnd, ast.BitOr, ast.BitXor)
_FILES: Final = 64
"""Capacity of the cache of parsed files."""


def compile_source(source: str) -> bytes:
    """Return the object code of a source's `step` for this processor.

    The source is first executed as Python, which defines its functions; exceptions of the execution are not caught.
    Raises `SyntaxError` and `KernelSourceError` for a source that cannot be compiled.
    """
    import llvmlite.binding as llvm

    target = target_machine()
    module = llvm.parse_assembly(_Module().text(plain_kernel(source)))
    module.triple, module.data_layout = target.triple, str(target.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = True
    builder = llvm.create_pass_builder(target, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = target.emit_object(module)
    return code


@functools.lru_cache(_FILES)
def _definitions(file_name: str) -> dict[str, ast.FunctionDef]:
    """Return the functions that a file defines, by name."""
    body = ast.parse("".join(linecache.getlines(file_name))).body
    return {node.name: node for node in body if isinstance(node, ast.FunctionDef)}


def _definition(function: Any) -> ast.FunctionDef:
    return _definitions(function.__code__.co_filename)[function.__name__]


def _mark_of(function: object) -> str | None:
    """Return the name of the decorator that marks a function as kernel source; None for anything else."""
    if not isinstance(function, FunctionType) or function.__module__ == plain.__name__:
        return None
    for decorator in _definition(function).decorator_list:
        if isinstance(decorator, ast.Name) and decorator.id in _MARKS:
            return decorator.id
    return None


def literal_places(function: Any) -> frozenset[int]:
    """Return the positions of the parameters that a function passes to `constant`."""
    node = _definition(function)
    given = {
        call.args[0].id
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "constant"
        if isinstance(call.args[0], ast.Name)
    }
    return frozenset(place for place, argument in enumerate(node.args.args) if argument.arg in given)


class _Module:
    """Module of LLVM with the functions of one kernel."""

    def __init__(self) -> None:
        self.declarations: dict[str, None] = {}
        self._texts: list[str] = []
        self._functions: dict[tuple[Any, ...], tuple[str, str]] = {}

    def text(self, step: Any) -> str:
        """Return the module's text for a kernel whose entry is ``step``."""
        self.function(step, [Operand("", INT)], SYMBOL)
        return "\n".join([*(f"declare {each}" for each in self.declarations), *self._texts])

    def function(self, function: Any, arguments: Sequence[Operand], symbol: str = "") -> tuple[str, str]:
        """Return the name and the result type of a function's translation for arguments of these types.

        Raise `KernelSourceError` for a function that is not decorated with `jit`, or calls itself.
        """
        mark = _mark_of(function)
        if mark is None:
            name = getattr(function, "__name__", str(function))
            raise KernelSourceError(f"expected a function decorated with `jit`, was {name}")
        places = literal_places(function)
        key = (function, *(each.literal if n in places else each.type for n, each in enumerate(arguments)))
        if key not in self._functions:
            is_entry, name = bool(symbol), symbol or f"{function.__name__}.{len(self._functions)}"
            self._functions[key] = name, ""  # a function that calls itself has no type yet
            translated = _Function(self, function, arguments, INT if is_entry else "")
            self._functions[key] = name, translated.result
            linkage, attributes = _MARKS[mark]
            self._texts.append(translated.text(name, "" if is_entry else linkage, attributes))
        name, result = self._functions[key]
        if not result:
            raise KernelSourceError(f"expected functions that do not call themselves, was {function.__name__}")
        return name, result


class _Function:
    """One function, translated for arguments of given types."""

    def __init__(self, module: _Module, function: Any, arguments: Sequence[Operand], result: str) -> None:
        """Prepare the translation.

        ``result`` is the type of the result; if it is empty, the returned values determine the type.
        """
        self._module, self._node = module, _definition(function)
        self._globals = function.__globals__
        names = [argument.arg for argument in self._node.args.args]
        if len(names) != len(arguments):
            raise KernelSourceError(f"expected {len(names)} arguments of {self._node.name}, was {len(arguments)}")
        places = literal_places(function)
        self._literals = {name: arguments[place] for place, name in enumerate(names) if place in places}
        for name, value in self._literals.items():
            if value.literal is None:
                raise KernelSourceError(f"expected a literal for {name} of {self._node.name}, was {value.text}")
        self._arguments = [
            Operand(f"%{name}", arguments[place].type) for place, name in enumerate(names) if place not in places
        ]
        self._types = {value.text[1:]: value.type for value in self._arguments}
        self.result = result
        self._is_settled = False
        # If a variable or the result later gets a wider value than its first one, the function is translated again.
        while not self._is_settled:
            self._is_settled = True
            self._translate()

    def _translate(self) -> None:
        self._lines: list[str] = []
        self._temporaries = self._labels = 0
        self._loops: list[tuple[str, str]] = []
        self._block = "entry.0"
        for value in self._arguments:
            self.put(f"store {value.typed}, ptr {self._variable(value.text[1:])}")
        self._body(self._node.body)
        self.result = self.result or NOTHING
        self.put("ret void" if self.result == NOTHING else f"ret {self.result} zeroinitializer")

    def text(self, name: str, linkage: str, attributes: str) -> str:
        """Return the definition of the function."""
        arguments = ", ".join(value.typed for value in self._arguments)
        head = f"define {linkage}{self.result} @{name}({arguments}) {attributes} {{\nentry.0:"
        variables = [f"  {self._variable(each)} = alloca {type_}" for each, type_ in self._types.items()]
        return "\n".join([head, *variables, *self._lines, "}"])

    # ---- code -------------------------------------------------------------------------------------------------------

    def emit(self, type_: str, text: str) -> Operand:
        self._temporaries += 1
        name = f"%.{self._temporaries}"
        self._lines.append(f"  {name} = {text}")
        return Operand(name, type_)

    def put(self, text: str) -> None:
        self._lines.append(f"  {text}")

    def declare(self, signature: str) -> None:
        self._module.declarations[signature] = None

    @staticmethod
    def _variable(name: str) -> str:
        return f"%{name}.variable"

    def _new_labels(self, *names: str) -> list[str]:
        self._labels += 1
        return [f"{name}.{self._labels}" for name in names]

    def _begin(self, label: str, end: str = "") -> None:
        """Begin a block. ``end`` is the last instruction of the preceding block; by default a jump to this block."""
        self.put(end or f"br label %{label}")
        self._lines.append(f"{label}:")
        self._block = label

    def _end(self, text: str) -> None:
        """End a block; later instructions go into a block that is never reached."""
        (label,) = self._new_labels("after")
        self._begin(label, text)

    def _branch(self, condition: Operand, then: str, otherwise: str, *, begin: str) -> None:
        self._begin(begin, f"br {condition.typed}, label %{then}, label %{otherwise}")

    def _wrong(self, node: ast.AST, expected: str) -> KernelSourceError:
        where = f"line {getattr(node, 'lineno', 0)} of {self._globals.get('__name__')}"
        return KernelSourceError(f"expected {expected}, was {ast.unparse(node)} in {where}")

    # ---- statements -------------------------------------------------------------------------------------------------

    def _body(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            rule = _STATEMENTS.get(type(statement))
            if rule is None:
                raise self._wrong(statement, "a statement of kernel source")
            rule(self, statement)

    def _assign(self, node: ast.Assign) -> None:
        first = node.targets[0]
        if isinstance(first, ast.Tuple):
            values = self._values(node.value)
            if len(values) != len(first.elts):
                raise self._wrong(node, "as many values as variables")
            # As in Python, all values are computed first; then, for each target in turn, its index is
            # computed and the value is stored.
            for target, value in zip(first.elts, values, strict=True):
                self._store(target, value)
            return
        value = self._value(node.value)
        for target in node.targets:
            self._store(target, value)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is None:
            raise self._wrong(node, "a value")
        self._store(node.target, self._value(node.value))

    def _store(self, target: ast.expr, value: Operand) -> None:
        if isinstance(target, ast.Subscript):
            cells, place = self._typed(target.value, CELLS), self._typed(target.slice, INT)
            self._put_cell(cells, place, value, target)
        elif isinstance(target, ast.Name):
            self._store_name(target.id, value, target)
        else:
            raise self._wrong(target, "a variable or a cell")

    def _put_cell(self, cells: Operand, place: Operand, value: Operand, node: ast.AST) -> None:
        address = machine.element(self, cells, place)
        self.put(f"store {self._converted(value, INT, node).typed}, {address.typed}, align 8")

    def _store_name(self, name: str, value: Operand, node: ast.AST) -> None:
        if name in self._literals:
            if value.literal != self._literals[name].literal:
                raise self._wrong(node, "no other value of a constant")
            return
        known = self._types.setdefault(name, value.type)
        if known != value.type:
            type_ = self._common(known, value.type, node)
            if type_ != known:
                self._types[name], self._is_settled = type_, False
            value = self._converted(value, type_, node)
        self.put(f"store {value.typed}, ptr {self._variable(name)}")

    def _augmented(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            value = self._value(ast.copy_location(ast.Name(node.target.id, ast.Load()), node))
            self._store_name(node.target.id, self._operated(node, node.op, value, self._value(node.value)), node)
            return
        if not isinstance(node.target, ast.Subscript):
            raise self._wrong(node, "a variable or a cell")
        cells, place = self._typed(node.target.value, CELLS), self._typed(node.target.slice, INT)
        value = self._operated(node, node.op, self._cell(cells, place), self._value(node.value))
        self._put_cell(cells, place, value, node)

    def _expression(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._called(node.value)
        elif not isinstance(node.value, ast.Constant):
            raise self._wrong(node, "a call")

    def _if(self, node: ast.If) -> None:
        then, otherwise, end = self._new_labels("then", "else", "end")
        self._branch(self._truth(node.test), then, otherwise if node.orelse else end, begin=then)
        self._body(node.body)
        if node.orelse:
            self._begin(otherwise, f"br label %{end}")
            self._body(node.orelse)
        self._begin(end)

    @contextmanager
    def _loop(self, again: str, end: str) -> Iterator[None]:
        self._loops.append((again, end))
        yield
        self._loops.pop()

    def _while(self, node: ast.While) -> None:
        test, body, end = self._new_labels("while", "do", "end")
        self._begin(test)
        self._branch(self._truth(node.test), body, end, begin=body)
        with self._loop(test, end):
            self._body(node.body)
        self._begin(end, f"br label %{test}")

    def _for(self, node: ast.For) -> None:
        call = node.iter
        if not (isinstance(node.target, ast.Name) and isinstance(call, ast.Call) and ast.unparse(call.func) == "range"):
            raise self._wrong(node.iter, "a range")
        given = [self._typed(argument, INT) for argument in call.args]
        start, stop, step = (
            given[0] if len(given) > 1 else Operand("0", INT, 0),
            given[min(1, len(given) - 1)],
            given[2] if len(given) > 2 else Operand("1", INT, 1),
        )
        if not step.literal:
            raise self._wrong(node.iter, "a step that is a literal")
        test, body, again, end = self._new_labels("for", "do", "next", "end")
        counter = f"for.{self._labels}"
        self._types[counter] = INT
        place = self._variable(counter)
        self.put(f"store {start.typed}, ptr {place}")
        self._begin(test)
        number = self.emit(INT, f"load i64, ptr {place}")
        compare = "slt" if step.literal > 0 else "sgt"
        self._branch(self.emit(BOOL, f"icmp {compare} {number.typed}, {stop.text}"), body, end, begin=body)
        self._store(node.target, number)
        with self._loop(again, end):
            self._body(node.body)
        self._begin(again)
        following = self.emit(INT, f"add nsw {number.typed}, {step.text}")
        self.put(f"store {following.typed}, ptr {place}")
        self._begin(end, f"br label %{test}")

    def _return(self, node: ast.Return) -> None:
        if node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None):
            value = Operand("", NOTHING)
        elif isinstance(node.value, ast.Tuple):
            value = self._pair(self._values(node.value))
        else:
            value = self._value(node.value)
        if self.result and self.result != value.type:
            type_ = self._common(self.result, value.type, node)
            self._is_settled &= type_ == self.result
            value = self._converted(value, type_, node)
        self.result = value.type
        self._end(f"ret {value.typed}")

    def _pair(self, values: Sequence[Operand]) -> Operand:
        type_ = f"{{{', '.join(value.type for value in values)}}}"
        pair = Operand("undef", type_)
        for place, value in enumerate(values):
            pair = self.emit(type_, f"insertvalue {pair.typed}, {value.typed}, {place}")
        return pair

    # ---- types ------------------------------------------------------------------------------------------------------

    def _common(self, left: str, right: str, node: ast.AST) -> str:
        """Return the common type of values of two types."""
        if left == right:
            return left
        if left not in _WIDTHS or right not in _WIDTHS:
            raise self._wrong(node, f"values of one type instead of {left} and {right}")
        return left if _WIDTHS[left] > _WIDTHS[right] else right

    def _converted(self, value: Operand, type_: str, node: ast.AST) -> Operand:
        if value.type == type_:
            return value
        if self._common(value.type, type_, node) != type_:
            raise self._wrong(node, f"a value of type {type_} instead of {value.type}")
        if type_ == INT:
            return self.emit(INT, f"zext {value.typed} to i64")
        if value.type == BOOL:
            return self.emit(DOUBLE, f"uitofp {value.typed} to double")
        return self.emit(DOUBLE, f"sitofp {value.typed} to double")

    def _typed(self, node: ast.expr, type_: str) -> Operand:
        return self._converted(self._value(node), type_, node)

    def _truth(self, node: ast.expr) -> Operand:
        """Return the truth of an expression, which may be a number of any type."""
        value = self._value(node)
        if value.type == BOOL:
            return value
        if value.type == DOUBLE:
            return self.emit(BOOL, f"fcmp une {value.typed}, 0.0")
        if value.type not in (INT, WIDE):
            raise self._wrong(node, f"a number instead of {value.type}")
        return self.emit(BOOL, f"icmp ne {value.typed}, 0")

    # ---- expressions ------------------------------------------------------------------------------------------------

    def _value(self, node: ast.expr) -> Operand:
        rule = _EXPRESSIONS.get(type(node))
        if rule is None:
            raise self._wrong(node, "an expression of kernel source")
        value = rule(self, node)
        if value is None:
            raise self._wrong(node, "a value")
        return value

    def _values(self, node: ast.expr) -> list[Operand]:
        if isinstance(node, ast.Tuple):
            return [self._value(each) for each in node.elts]
        value = self._value(node)
        if not value.type.startswith("{"):
            raise self._wrong(node, "several values")
        types = value.type[1:-1].split(", ")
        return [self.emit(type_, f"extractvalue {value.typed}, {place}") for place, type_ in enumerate(types)]

    def _constant(self, node: ast.Constant) -> Operand:
        return self._literal(node.value, node)

    def _literal(self, value: object, node: ast.AST) -> Operand:
        if isinstance(value, bool):
            return Operand("true" if value else "false", BOOL)
        if isinstance(value, int):
            if not -(2**63) <= value < 2**63:
                raise self._wrong(node, "an integer of 64 bits")
            return Operand(str(value), INT, value)
        if isinstance(value, float):
            return Operand(machine.float_literal(value), DOUBLE)
        raise self._wrong(node, "a number")

    def _name(self, node: ast.Name) -> Operand:
        if node.id in self._literals:
            return self._literals[node.id]
        if node.id in self._types:
            type_ = self._types[node.id]
            return self.emit(type_, f"load {type_}, ptr {self._variable(node.id)}")
        return self._literal(self._known(node), node)

    def _known(self, node: ast.expr) -> Any:
        """Return the value of a global name or of an attribute of a module."""
        if isinstance(node, ast.Name):
            if node.id in self._globals:
                return self._globals[node.id]
            if hasattr(builtins, node.id):
                return getattr(builtins, node.id)
        elif isinstance(node, ast.Attribute) and isinstance(owner := self._known(node.value), ModuleType):
            return getattr(owner, node.attr)
        raise self._wrong(node, "a variable that has a value, or a name of its module")

    def _attribute(self, node: ast.Attribute) -> Operand:
        if isinstance(node.value, ast.Name) and node.value.id in self._types:
            raise self._wrong(node, "no attribute")
        return self._literal(self._known(node), node)

    def _cell(self, cells: Operand, place: Operand) -> Operand:
        return self.emit(INT, f"load i64, {machine.element(self, cells, place).typed}, align 8")

    def _subscript(self, node: ast.Subscript) -> Operand:
        return self._cell(self._typed(node.value, CELLS), self._typed(node.slice, INT))

    def _binary(self, node: ast.BinOp) -> Operand:
        return self._operated(node, node.op, self._value(node.left), self._value(node.right))

    def _operated(self, node: ast.AST, op: ast.operator, left: Operand, right: Operand) -> Operand:
        kind = type(op)
        type_ = DOUBLE if kind is ast.Div else self._common(left.type, right.type, node)
        if type_ == BOOL and kind not in _BITWISE:
            type_ = INT
        left, right = self._converted(left, type_, node), self._converted(right, type_, node)
        if type_ == INT and kind in (ast.FloorDiv, ast.Mod):
            return self._divided(left, right, is_quotient=kind is ast.FloorDiv)
        names = _FLOAT if type_ == DOUBLE else _INTEGER
        if kind not in names or (type_ == WIDE and kind not in (ast.Add, ast.Sub, ast.Mult)) or type_ == CELLS:
            raise self._wrong(node, f"an operation on values of type {type_}")
        return self.emit(type_, f"{names[kind]} {left.typed}, {right.text}")

    def _divided(self, left: Operand, right: Operand, *, is_quotient: bool) -> Operand:
        """Return the quotient or remainder, rounded as in Python; a divisor of 0, which no kernel has, gives 0."""
        by = right
        if by.literal in (None, 0, -1):
            plus = self.emit(INT, f"add {right.typed}, 1")
            is_special = self.emit(BOOL, f"icmp ult {plus.typed}, 3")
            by = self.emit(INT, f"select {is_special.typed}, i64 1, {right.typed}")
        rest = self.emit(INT, f"srem {left.typed}, {by.text}")
        signs = self.emit(INT, f"xor {rest.typed}, {by.text}")
        is_other = self.emit(BOOL, f"icmp slt {signs.typed}, 0")
        is_some = self.emit(BOOL, f"icmp ne {rest.typed}, 0")
        is_past = self.emit(BOOL, f"and {is_other.typed}, {is_some.text}")
        if not is_quotient:
            more = self.emit(INT, f"select {is_past.typed}, {by.typed}, i64 0")
            return self.emit(INT, f"add {rest.typed}, {more.text}")
        whole = self.emit(INT, f"sdiv {left.typed}, {by.text}")
        floor = self.emit(INT, f"sub {whole.typed}, {self.emit(INT, f'zext {is_past.typed} to i64').text}")
        if by is right:
            return floor
        # Divisors -1, 0 and 1 were replaced by 1: the quotient is multiplied by the divisor.
        factor = self.emit(INT, f"select {is_special.typed}, {right.typed}, i64 1")
        return self.emit(INT, f"mul {floor.typed}, {factor.text}")

    def _unary(self, node: ast.UnaryOp) -> Operand:
        if isinstance(node.op, ast.Not):
            return self.emit(BOOL, f"xor {self._truth(node.operand).typed}, true")
        value = self._value(node.operand)
        if value.type == BOOL:
            value = self._converted(value, INT, node)
        if isinstance(node.op, ast.USub) and value.type == DOUBLE:
            return self.emit(DOUBLE, f"fneg {value.typed}")
        if isinstance(node.op, ast.USub) and value.type in (INT, WIDE):
            if value.literal is not None:
                return self._literal(-value.literal, node)
            return self.emit(value.type, f"sub {value.type} 0, {value.text}")
        if isinstance(node.op, ast.Invert) and value.type == INT:
            return self.emit(INT, f"xor {value.typed}, -1")
        raise self._wrong(node, f"an operation on a value of type {value.type}")

    def _compared(self, node: ast.Compare) -> Operand:
        left, right = self._value(node.left), self._value(node.comparators[0])
        value = self._comparison(node, node.ops[0], left, right)
        if len(node.ops) == 1:
            return value
        rest = ast.copy_location(ast.Compare(node.comparators[0], node.ops[1:], node.comparators[1:]), node)
        return self._joined(node, [lambda: value, lambda: self._value(rest)])

    def _comparison(self, node: ast.AST, op: ast.cmpop, left: Operand, right: Operand) -> Operand:
        type_ = self._common(left.type, right.type, node)
        if type_ == BOOL:
            type_ = INT
        left, right = self._converted(left, type_, node), self._converted(right, type_, node)
        if type_ not in (INT, WIDE, DOUBLE) or type(op) not in _COMPARE:
            raise self._wrong(node, "a comparison of numbers")
        if type_ == DOUBLE:
            return self.emit(BOOL, f"fcmp {_COMPARE_FLOAT[type(op)]} {left.typed}, {right.text}")
        return self.emit(BOOL, f"icmp {_COMPARE[type(op)]} {left.typed}, {right.text}")

    def _logic(self, node: ast.BoolOp) -> Operand:
        """Return `and` or `or` as a truth value; Python returns an operand, but kernels use only its truth."""
        return self._joined(node, [functools.partial(self._truth, each) for each in node.values])

    def _joined(self, node: ast.BoolOp | ast.Compare, parts: Sequence[Callable[[], Operand]]) -> Operand:
        """Return whether all parts (for `or`, any part) are true; parts after the deciding part are not evaluated."""
        is_all = isinstance(node, ast.Compare) or isinstance(node.op, ast.And)
        (end,) = self._new_labels("decided")
        arrivals = []
        for number, part in enumerate(parts, 1):
            value = part()
            if number == len(parts):
                arrivals.append(f"[{value.text}, %{self._block}]")
                self._begin(end)
            else:
                (following,) = self._new_labels("undecided")
                arrivals.append(f"[{'false' if is_all else 'true'}, %{self._block}]")
                then, otherwise = (following, end) if is_all else (end, following)
                self._branch(value, then, otherwise, begin=following)
        return self.emit(BOOL, f"phi i1 {', '.join(arrivals)}")

    def _choice(self, node: ast.IfExp) -> Operand:
        then, otherwise, end = self._new_labels("then", "else", "end")
        self._branch(self._truth(node.test), then, otherwise, begin=then)
        first = self._value(node.body)
        first_block, ends_at = self._block, len(self._lines)
        self._begin(otherwise, f"br label %{end}")
        second = self._value(node.orelse)
        type_ = self._common(first.type, second.type, node)
        second = self._converted(second, type_, node)
        tail, self._lines = self._lines[ends_at:], self._lines[:ends_at]
        first = self._converted(first, type_, node)
        self._lines += tail
        second_block = self._block
        self._begin(end)
        return self.emit(type_, f"phi {type_} [{first.text}, %{first_block}], [{second.text}, %{second_block}]")

    # ---- calls ------------------------------------------------------------------------------------------------------

    def _called(self, node: ast.Call) -> Operand | None:
        function, arguments = self._known(node.func), [self._value(argument) for argument in node.args]
        name = getattr(function, "__name__", "")
        if getattr(function, "__module__", None) == plain.__name__:
            if name == "constant":
                return arguments[0]
            if name in machine.PRIMITIVES:
                return self._primitive(node, machine.PRIMITIVES[name], arguments)
            function = getattr(machine, name)
        elif function in (min, max):
            return self._extreme(node, arguments)
        elif function is int:
            return self._converted(arguments[0], INT, node)
        elif function is float:
            return self._converted(arguments[0], DOUBLE, node)
        elif function is math.sqrt:
            self.declare("double @llvm.sqrt.f64(double)")
            return self.emit(DOUBLE, f"call double @llvm.sqrt.f64({self._converted(arguments[0], DOUBLE, node).typed})")
        symbol, result = self._module.function(function, arguments)
        places = literal_places(function)
        given = ", ".join(value.typed for place, value in enumerate(arguments) if place not in places)
        if result == NOTHING:
            self.put(f"call void @{symbol}({given})")
            return None
        return self.emit(result, f"call {result} @{symbol}({given})")

    def _primitive(self, node: ast.Call, primitive: Any, arguments: list[Operand]) -> Operand | None:
        if len(arguments) != len(inspect.signature(primitive).parameters) - 1:
            raise self._wrong(node, "the arguments of a primitive")
        value: Operand | None = primitive(self, *arguments)
        return value

    def _extreme(self, node: ast.Call, arguments: list[Operand]) -> Operand:
        left, right = (self._converted(value, INT, node) for value in arguments)
        name = "llvm.smin.i64" if self._known(node.func) is min else "llvm.smax.i64"
        self.declare(f"i64 @{name}(i64, i64)")
        return self.emit(INT, f"call i64 @{name}({left.typed}, {right.typed})")


_STATEMENTS: Final[dict[type[ast.stmt], Callable[[_Function, Any], None]]] = {
    ast.Assign: _Function._assign,
    ast.AnnAssign: _Function._annotated,
    ast.AugAssign: _Function._augmented,
    ast.Expr: _Function._expression,
    ast.If: _Function._if,
    ast.While: _Function._while,
    ast.For: _Function._for,
    ast.Return: _Function._return,
    ast.Pass: lambda self, node: None,
    ast.Break: lambda self, node: self._end(f"br label %{self._loops[-1][1]}"),
    ast.Continue: lambda self, node: self._end(f"br label %{self._loops[-1][0]}"),
}
_EXPRESSIONS: Final[dict[type[ast.expr], Callable[[_Function, Any], Operand | None]]] = {
    ast.Attribute: _Function._attribute,
    ast.BinOp: _Function._binary,
    ast.BoolOp: _Function._logic,
    ast.Call: _Function._called,
    ast.Compare: _Function._compared,
    ast.Constant: _Function._constant,
    ast.IfExp: _Function._choice,
    ast.Name: _Function._name,
    ast.Subscript: _Function._subscript,
    ast.UnaryOp: _Function._unary,
}
