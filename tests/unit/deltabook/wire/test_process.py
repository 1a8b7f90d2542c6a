"""What a process sets for itself, in processes of their own."""

from __future__ import annotations

import subprocess
import sys


def test_as_many_files_may_be_open_as_there_may_be_connections() -> None:
    code = (
        "import resource\nfrom deltabook.wire.process import allow_files\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 512))\n"
        "print(allow_files(300), allow_files(200), allow_files(10_000), resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "300 300 512 (512, 512)"
