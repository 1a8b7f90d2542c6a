"""Tests that need a program which is no Python package are collected where it is."""

import shutil

collect_ignore = [] if shutil.which("tshark") else ["test_tshark.py"]
