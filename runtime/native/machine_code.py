"""Compiles kernel source to object code: numba's front end and optimiser, LLVM's code generator.

Only the compile process imports this module: numba's compiler takes seconds and holds the interpreter lock.

Kernel source names `runtime.native.plain`. Here that name stands for a module with the primitives of
`runtime.native.machine`, so the library and the generated nodes are compiled from the very texts that the interpreted
tier executes. Its `jit` differs from `runtime.native.machine.jit`: no wrappers for calls from Python or from C, which
nothing calls, and no cache on disk, whose pickles would have to be trusted.
"""

# mypy: ignore-errors
# (numba and llvmlite have no types of their own that a checker could follow here)

from __future__ import annotations

import contextlib
import dis
import functools
import importlib
import itertools
import sys
import types
from collections.abc import Iterator

from runtime.native.errors import KernelSourceError
from runtime.native.object_code import RAISED, SYMBOL, target_machine
from runtime.native.tiers import kernel_name, register_source

__all__ = ["compile_source"]

_PRIMITIVES = "runtime.native.plain"
_LIBRARY = "runtime.native.library"
_ENTRY = """
declare i32 @"{step}"(ptr, ptr, i64)
define i64 @{symbol}(i64 %table) {{
  %result = alloca i64
  %exception = alloca ptr
  %status = call i32 @"{step}"(ptr %result, ptr %exception, i64 %table)
  %returned = icmp eq i32 %status, 0
  %value = load i64, ptr %result
  %answer = select i1 %returned, i64 %value, i64 {raised}
  ret i64 %answer
}}
"""
"""The function that is called from outside, in front of numba's calling convention."""


def compile_source(source: str) -> bytes:
    """Return the object code of a source's `step` for this processor.

    Raises numba's errors, `SyntaxError` and `KernelSourceError` for a source that cannot be compiled.
    """
    import llvmlite.binding as llvm
    from numba import types as nb
    step = _dispatcher(source)
    with _front_end_only():
        step.compile(nb.int64(nb.int64))
    compiled = step.overloads[nb.int64,]
    module = llvm.parse_assembly(
        _ENTRY.format(symbol=SYMBOL, step=compiled.fndesc.llvm_func_name, raised=RAISED)
    )
    for part in _parts(compiled.library):
        module.link_in(part._final_module, preserve=True)
    machine = target_machine()
    _optimise(module, machine)
    return machine.emit_object(module)


def _parts(library) -> list:
    """Return a library of numba and all that it calls, each once."""
    found = {}
    pending = [library]
    while pending:
        part = pending.pop()
        if id(part) not in found:
            found[id(part)] = part
            pending += part._linking_libraries
    return list(found.values())


def _optimise(module, machine) -> None:
    import llvmlite.binding as llvm

    for symbol in (*module.functions, *module.global_variables):
        if not symbol.is_declaration and symbol.name != SYMBOL:
            symbol.linkage = "internal"
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)


def _call_template(dispatcher, template, args, kws):
    """Have numba compile one version of a function for all values of its arguments but those given to `constant`.

    numba compiles a function anew for each combination of literals in its calls, which takes half of the time more, and
    makes half of the machine code more: the optimiser sees the literals wherever a function is copied into its caller.
    """
    from numba.core.types import unliteral

    if dispatcher.py_func.__module__.startswith((_LIBRARY, "k_")):
        literals = _literal_places(dispatcher.py_func)
        args = tuple(arg if place in literals else unliteral(arg) for place, arg in enumerate(args))
    return template(dispatcher, args, kws)


@functools.cache
def _literal_places(function):
    """The places of the parameters that a function gives to `constant`."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    instructions = list(dis.get_instructions(function))
    given = [after.argval for at, after in itertools.pairwise(instructions) if at.argval == "constant"]
    return frozenset(place for place, name in enumerate(names) if name in given)


def _finish(library):
    library._finalized = True


@contextlib.contextmanager
def _front_end_only() -> Iterator[None]:
    """Let numba stop at unoptimised LLVM modules.

    numba optimises every function that it compiles and makes machine code of it, to be called from Python. Functions of
    the library are only ever linked into a kernel, which is optimised as a whole: doing it once halves the time.
    """
    from numba.core import codegen, cpu, dispatcher

    template = dispatcher.Dispatcher.get_call_template
    patches = (
        (dispatcher.Dispatcher, "get_call_template", functools.partialmethod(_call_template, template)),
        # Numba remembers a function under its entry point, which has to be a built-in and one of its own.
        (cpu.CPUContext, "get_executable", lambda self, library, fndesc, env: [].append),
        (codegen.CPUCodeLibrary, "_optimize_functions", lambda self, module: None),
        (codegen.CPUCodeLibrary, "finalize", _finish),
    )
    held = [getattr(owner, name) for owner, name, _ in patches]
    for owner, name, patch in patches:
        setattr(owner, name, patch)
    try:
        yield
    finally:
        for (owner, name, _), original in zip(patches, held, strict=True):
            setattr(owner, name, original)


@functools.cache
def _install_primitives() -> None:
    """Let `runtime.native.plain` name the primitives of the compiled tier in this process, and the library use them."""
    from numba import njit

    machine = importlib.import_module("runtime.native.machine")
    module = types.ModuleType(_PRIMITIVES)
    vars(module).update({name: getattr(machine, name) for name in machine.__all__})
    module.__all__ = list(machine.__all__)
    module.jit = njit(nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
    for name in [name for name in sys.modules if name == _LIBRARY or name.startswith(_LIBRARY + ".")]:
        del sys.modules[name]
    sys.modules[_PRIMITIVES] = module
    sys.modules["runtime.native"].plain = module


def _dispatcher(source: str) -> object:
    """Return numba's dispatcher of a source's `step`; nothing is compiled yet."""
    from numba.core.dispatcher import Dispatcher

    _install_primitives()
    name = kernel_name(source)
    file_name = f"<kernel {name}>"
    register_source(file_name, source)
    namespace = {"__name__": name}
    exec(compile(source, file_name, "exec"), namespace)
    step = namespace.get("step")
    if not isinstance(step, Dispatcher):
        raise KernelSourceError(f"expected a function `step` decorated with `jit`, was {type(step).__name__} in {name}")
    return step
