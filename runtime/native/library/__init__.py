"""Kernel source written by hand: functions on structures that generated kernels call.

Every module runs unchanged in the plain tier; the compiled tier takes the same text with `runtime.native.machine` in
place of `runtime.native.plain`. A function never allocates and never raises: if a structure has no room, it returns a
negative number, and the structure's owner in Python (`runtime.native.structures`) makes room.
"""
