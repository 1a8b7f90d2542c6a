"""Setting up touches nothing but this checkout."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "setup.sh"


def test_an_environment_that_is_a_link_is_refused_and_left_alone(tmp_path: Path) -> None:
    """A new environment empties the directory first: through a link it would be another checkout's."""
    others, checkout = tmp_path / "others", tmp_path / "checkout"
    others.mkdir()
    (others / "pyvenv.cfg").write_text("theirs")
    (checkout / "scripts").mkdir(parents=True)
    shutil.copy(SCRIPT, checkout / "scripts")
    (checkout / ".venv").symlink_to(others)
    done = subprocess.run(
        [str(checkout / "scripts" / "setup.sh")], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, (others / "pyvenv.cfg").read_text()) == (1, "theirs")
    assert done.stderr.startswith("setup: failed: expected .venv to be this checkout's own, was a link to ")
