"""Kernel source in two tiers: a small part of Python, interpreted as it stands or compiled to machine code.

```
plain.py ◀── library/*.py ◀── generated source ──tiers.plain_kernel──▶ step(table)     interpreted: CPython, memoryviews
 same names                     │
machine.py                      └─cache.KernelCache──▶ step(address)                   compiled: raw addresses
                                    │        ▲
        compile_queue.py ──stdin──▶ │        │ object_code.link
        compile_process.py ──machine_code──▶ cache_folder.py
```

A step returns a status: it never allocates, never raises, and does not hold the interpreter lock when compiled. Both
tiers give the same answers. Nothing is imported here: the interpreted tier works where llvmlite is missing.
"""

__all__: list[str] = []
