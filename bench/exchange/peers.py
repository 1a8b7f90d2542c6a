"""Peers from PyPI on the same flow, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from bench.exchange.flow import Request

__all__ = ["LISTED", "PeerRun", "run_peer", "write_flow"]

_HERE: Final = Path(__file__).resolve().parent
LISTED: Final = _HERE / "peers.txt"
_TIMEOUT_S: Final = 900


class PeerRun(msgspec.Struct, frozen=True):
    """Result of a peer's run."""

    requests: int
    """Number of timed requests."""
    seconds: float
    """Seconds for all timed requests."""
    executions: int
    """Number of executions that the peer reported; -1 if it reports none."""


def write_flow(path: Path, filling: Sequence[Request], requests: Sequence[Request]) -> None:
    """Write a flow in the format of `peers_process.py`."""
    with path.open("w", encoding="ascii") as file:
        file.write(f"{len(filling)}\n")
        for part in (filling, requests):
            file.writelines(" ".join(map(str, request)) + "\n" for request in part)


def run_peer(python: Path, name: str, flow: Path) -> PeerRun:
    """Run a peer once; raise `subprocess.CalledProcessError` if it fails on the flow."""
    command = [str(python), str(_HERE / "peers_process.py"), name, str(flow)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_TIMEOUT_S)
    return msgspec.convert(json.loads(done.stdout), PeerRun)
