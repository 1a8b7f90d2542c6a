"""Kernel source in two tiers: a small part of Python, interpreted unchanged or compiled to machine code.

```
plain.py ◀── library/*.py ◀── generated source ──tiers.plain_kernel──▶ step(table)     interpreted: CPython, memoryviews
 same names                     │
machine.py                      └─cache.KernelCache──▶ step(address)                   compiled: raw addresses
                                    │        ▲
        compile_queue.py ──stdin──▶ │        │ object_code.link
        compile_process.py ──machine_code──▶ cache_folder.py
```

A step returns a status: it never allocates, never raises, and does not hold the interpreter lock when compiled. A
kernel that finds no room (a new key, an entry outside its window, a full batch) stores the row at which it stopped and
returns; the structure's owner makes room, and the kernel resumes at that row. Tests run with room for one record, so
that every stop is taken. Both tiers give the same answers on the same arrays, so a node changes its tier between two
steps. The interpreted tier answers first, checks the bounds of arrays, and is the fallback without a compiler. Nothing
is imported here: the interpreted tier works where llvmlite is missing.
"""

__all__: list[str] = []
