"""Environments that contain only the peers of a benchmark."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

__all__ = ["find_peer", "install_peers"]

_CACHE: Final = Path(__file__).resolve().parents[1] / ".cache"
_TIMEOUT_S: Final = 900


def find_peer(module: str, name: str, how: str) -> Path | None:
    """Return the interpreter of the environment ``name``, which is made by hand for a peer that is on no package index.
    If the environment does not have the module, print ``how`` to make it, and return None.
    """
    python = _CACHE / name / "bin" / "python"
    if python.exists() and not subprocess.run([str(python), "-c", f"import {module}"], check=False).returncode:
        return python
    sys.stdout.write(f"bench: {module} is left out; {how}, with {python}\n")
    return None


def install_peers(listed: Path, name: str) -> tuple[Path, list[str]]:
    """Return the interpreter of an environment, and the listed peers that are in it.

    ``listed`` has a line ``PEER==VERSION`` for each peer; a peer that cannot be installed is reported and left out.
    """
    folder = _CACHE / name
    python = folder / "bin" / "python"
    if not python.exists():
        sys.stdout.write(f"bench: an environment for peers in {folder}\n")
        venv.create(folder, with_pip=True)
    there: list[str] = []
    lines = listed.read_text("utf-8").splitlines()
    for wanted in (line for line in lines if line and not line.startswith("#")):
        peer, _, version = wanted.partition("==")
        if not list(folder.glob(f"lib/python*/site-packages/{peer.replace('-', '_')}-{version}.dist-info")):
            command = [str(python), "-m", "pip", "install", "--quiet", wanted]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                sys.stdout.write(f"bench: {wanted} does not install here: {reason}\n")
                continue
        there.append(peer)
    return python, there
