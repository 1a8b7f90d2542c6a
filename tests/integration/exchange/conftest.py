"""Tests that need a program which is no Python package are collected where it is."""

import shutil

from tests.generators.browser import PROGRAM

collect_ignore = [
    *([] if shutil.which("tshark") else ["test_tshark.py"]),
    *([] if PROGRAM else ["test_page.py"]),
]
