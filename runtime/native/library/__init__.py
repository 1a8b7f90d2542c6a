"""Kernel source written by hand: the structures that generated nodes call, one function a step of theirs.

Every module runs as it stands in the plain tier; the compiled tier takes the same text with `runtime.native.machine` in
the place of `runtime.native.plain`. A function never allocates and never raises: where a structure has no room it
returns a negative number, and the structure's owner in Python (`runtime.native.structures`) makes room.
"""
