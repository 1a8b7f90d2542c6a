"""Spark: finding a Java for it, its session, the source of epochs and the processors of views."""
