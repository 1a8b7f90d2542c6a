"""Writers of kernel source: lines, values, expressions."""
