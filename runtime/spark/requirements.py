"""Packages that must be installed before Spark can start, checked without importing any of them."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from typing import Final

from deltabook.wire.advice import Extra, install_command
from runtime.spark.config import SparkLaneError
from runtime.spark.java import JavaNotFoundError, find_java

__all__ = ["PACKAGES", "check_requirements", "missing_requirement"]

PACKAGES: Final = {"pyspark": "pyspark", "py4j": "py4j", "pandas": "pandas", "protobuf": "google.protobuf"}
"""Package of the extra `spark` → one of its modules."""


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package around the module is missing
        return False


def missing_requirement(environ: Mapping[str, str]) -> str:
    """Return the missing requirement of Spark and how to install it, in one line; empty if none is missing.

    The check starts the installed Java once, which takes about 0.1 s.
    """
    packages = [package for package, module in PACKAGES.items() if not _is_installed(module)]
    extras: list[Extra] = ["spark"] if packages else []
    missing = [f"the package {packages[0]}"] if packages else []
    try:
        find_java(environ)
    except JavaNotFoundError as error:
        if not packages:
            return str(error)
        extras, missing = [*extras, "java"], [*missing, "a Java"]
    return f"expected {' and '.join(missing)}, was none: `{install_command(*extras)}` installs it" if missing else ""


def check_requirements(environ: Mapping[str, str] = os.environ) -> None:
    """Raise `SparkLaneError` if this machine lacks a requirement of Spark."""
    if missing := missing_requirement(environ):
        raise SparkLaneError(missing)
