"""The operators of a view program's graph, one module each."""
