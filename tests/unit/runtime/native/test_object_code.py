"""Object code is linked only if it is whole."""

from __future__ import annotations

import ctypes

import llvmlite.binding as llvm
import pytest

from runtime.native.object_code import link, pack, target_machine
from runtime.native.tiers import KernelFileError

TWICE = "define i64 @kernel(i64 %p) {\n %r = shl i64 %p, 1\n ret i64 %r\n}\n"
UNKNOWN = "declare i64 @no_such_function(i64)\n" + TWICE.replace("shl i64 %p, 1", "call i64 @no_such_function(i64 %p)")


def emitted(text: str) -> bytes:
    machine = target_machine()
    code: bytes = machine.emit_object(llvm.parse_assembly(text))
    return code


def test_a_kernel_is_called_with_an_address() -> None:
    kernel = link(pack(emitted(TWICE)))
    assert [kernel(21), kernel(-(2**62))] == [42, -(2**63)]
    with pytest.raises(ctypes.ArgumentError):
        kernel([])  # type: ignore[arg-type]


def test_two_kernels_of_one_name_stay_apart() -> None:
    first, second = link(pack(emitted(TWICE))), link(pack(emitted(TWICE.replace("1\n", "2\n"))))
    assert (first(10), second(10)) == (20, 40)


@pytest.mark.parametrize("place", [0, 40])
def test_damaged_code_is_not_linked(place: int) -> None:
    content = bytearray(pack(emitted(TWICE)))
    content[place] ^= 1
    with pytest.raises(KernelFileError, match="SHA-256"):
        link(bytes(content))


def test_a_truncated_file_is_not_linked() -> None:
    for size_bytes in (0, 10, 32, 200):
        with pytest.raises(KernelFileError):
            link(pack(emitted(TWICE))[:size_bytes])


def test_code_that_calls_an_unknown_function_is_refused() -> None:
    with pytest.raises(KernelFileError, match="expected object code that can be linked"):
        link(pack(emitted(UNKNOWN)))
