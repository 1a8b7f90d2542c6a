"""Kernel source in two tiers: a small part of Python, interpreted unchanged or compiled to machine code.

```
plain.py ◀── library/*.py ◀── generated source ──tiers.plain_kernel──▶ step(table)     interpreted: CPython, memoryviews
 same names                     │
machine.py                      └─cache.KernelCache──▶ step(address)                   compiled: raw addresses
                                    │        ▲
        compile_queue.py ──stdin──▶ │        │ object_code.link
        compile_process.py ──machine_code──▶ cache_folder.py
```

The function `step` of a kernel never allocates memory and never raises; it returns a status. When compiled, it does not
hold the interpreter lock. A kernel may lack capacity for a new key, for an entry outside its window, or for a row in a
full batch. It then stores the row at which it stops, and returns. The owner of the structure makes room, and the kernel
resumes at the stored row. Tests run with room for one record, so that every kind of stop occurs.

Both tiers return the same answers on the same arrays, so a node can change its tier between two calls. Every kernel is
interpreted until its machine code is ready, or always if there is no compiler. The interpreted tier checks the bounds
of arrays. This module imports nothing, so that the interpreted tier works where llvmlite is missing.
"""

__all__: list[str] = []
