"""Kernel source in two tiers: a small part of Python, interpreted unchanged or compiled to machine code.

```
plain.py ◀── library/*.py ◀── generated source ──tiers.plain_kernel──▶ step(table)     interpreted: CPython, memoryviews
 same names                     │
machine.py                      └─cache.KernelCache──▶ step(address)                   compiled: raw addresses
                                    │        ▲
        compile_queue.py ──stdin──▶ │        │ object_code.link
        compile_process.py ──machine_code──▶ cache_folder.py
```

The function `step` of a kernel returns a status: it never allocates, never raises, and does not hold the interpreter
lock when compiled. A kernel that has no room (for a new key, an entry outside its window, a row in a full batch) stores
the row at which it stops and returns; the structure's owner makes room, and the kernel resumes at that row. Tests run
with room for one record, so that every such stop occurs. Both tiers give the same answers on the same arrays, so a node
can change its tier between two calls. Every kernel is interpreted until its machine code is ready, or always if there
is no compiler; the interpreted tier checks the bounds of arrays. This module imports nothing, so that the interpreted
tier works where llvmlite is missing.
"""

__all__: list[str] = []
