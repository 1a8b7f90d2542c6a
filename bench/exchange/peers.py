"""Peers from PyPI on the same flow, each in a process of an environment that holds nothing but them."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench.exchange.flow import Request

__all__ = ["PeerRun", "install_peers", "run_peer", "write_flow"]

_HERE: Final = Path(__file__).resolve().parent
_CACHE: Final = _HERE.parents[1] / ".cache" / "bench-peers"
_TIMEOUT_S: Final = 900


class PeerRun(msgspec.Struct, frozen=True):
    """What a peer took."""

    requests: int
    """How many were timed."""
    seconds: float
    """For all of them."""
    executions: int
    """How many it said; -1 if it does not."""


def install_peers() -> tuple[Path, list[str]]:
    """The interpreter of the peers' environment, and the peers in it; what does not install is named and left out."""
    python = _CACHE / "bin" / "python"
    if not python.exists():
        sys.stdout.write(f"bench: exchange: an environment for peers in {_CACHE}\n")
        venv.create(_CACHE, with_pip=True)
    there: list[str] = []
    lines = (_HERE / "peers.txt").read_text("utf-8").splitlines()
    for wanted in (line for line in lines if line and not line.startswith("#")):
        name, _, version = wanted.partition("==")
        if not list(_CACHE.glob(f"lib/python*/site-packages/{name.replace('-', '_')}-{version}.dist-info")):
            command = [str(python), "-m", "pip", "install", "--quiet", wanted]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
            if done.returncode:
                reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                sys.stdout.write(f"bench: exchange: {wanted} does not install here: {reason}\n")
                continue
        there.append(name)
    return python, there


def write_flow(path: Path, filling: Sequence[Request], requests: Sequence[Request]) -> None:
    """As `peers_process.py` reads it."""
    with path.open("w", encoding="ascii") as file:
        file.write(f"{len(filling)}\n")
        for part in (filling, requests):
            file.writelines(" ".join(map(str, request)) + "\n" for request in part)


def run_peer(python: Path, name: str, flow: Path) -> PeerRun:
    """One run; raises `subprocess.CalledProcessError` if the peer fails on the flow."""
    command = [str(python), str(_HERE / "peers_process.py"), name, str(flow)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_TIMEOUT_S)
    return msgspec.convert(json.loads(done.stdout), PeerRun)
