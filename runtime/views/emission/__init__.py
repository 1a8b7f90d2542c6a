"""What writes kernel source: lines, values, expressions."""
