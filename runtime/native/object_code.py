"""Object code of kernels, and its linking into this process by LLVM.

A kernel takes an int64, returns an int64 and calls nothing in the interpreter. So a file contains only the code that
LLVM emits for the kernel, and no pickle, which could execute anything. `llvmlite` links the code in under 1 ms.

```
file = SHA-256 of the object code (32 bytes) ‖ object code (ELF or Mach-O) that defines `kernel: i64 → i64`
```
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
from typing import Any, Final

from runtime.native.tiers import KernelFileError, MachineKernel

__all__ = ["SYMBOL", "host_cpu", "link", "pack", "target_machine"]

SYMBOL: Final = "kernel"
"""Name of the function that an object file defines."""

_DIGEST_BYTES: Final = 32
_PROTOTYPE: Final = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
_lock = threading.Lock()
_linker: Any = None
_linked = 0


def host_cpu() -> tuple[str, str]:
    """Return the name and the features of the processor, as LLVM names them."""
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def target_machine() -> Any:
    """Return LLVM's target machine for position-independent code for this processor."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name, features = host_cpu()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=name, features=features, opt=3, reloc="pic", codemodel="default"
    )


def pack(code: bytes) -> bytes:
    """Return the content of a file with this object code."""
    return hashlib.sha256(code).digest() + code


def link(content: bytes) -> MachineKernel:
    """Link the object code in the content of a file, and return its kernel.

    The code is unloaded when the kernel is garbage-collected. Raises `KernelFileError` if the content is damaged or
    refers to functions that this process does not have.
    """
    digest, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if hashlib.sha256(code).digest() != digest:
        raise KernelFileError(f"expected object code with its own SHA-256, was another digest over {len(code)} bytes")
    import llvmlite.binding as llvm

    global _linker, _linked  # noqa: PLW0603 - one linker for the whole process, because each linker allocates memory
    with _lock:
        if _linker is None:
            _linker = llvm.create_lljit_compiler(target_machine())
        _linked += 1
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(SYMBOL)
        try:
            library = builder.link(_linker, f"kernel_{_linked}")
        except RuntimeError as error:
            raise KernelFileError(f"expected object code that can be linked, was: {error}") from error
    kernel = _PROTOTYPE(library[SYMBOL])
    kernel.library = library  # type: ignore[attr-defined]  # keeps the code as long as the kernel
    return kernel
