"""Rounds of fuzzing: each is an exchange of its own and follows from its target and its seed."""

from __future__ import annotations

import faulthandler
import multiprocessing
import time
import traceback
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from tests.fuzz.exchange.floor import TARGETS, FuzzFloor

__all__ = ["ROUND_MESSAGES", "Round", "fuzz", "run_round", "target_of"]

ROUND_MESSAGES = 20_000
"""Messages of a round: so many that its journal, its feed and its books get long, and few enough to run again."""

_CHECK_EVERY = 50
_ROUND_SECONDS = 120.0
"""How long a round may take; most take one or two."""


class Round(msgspec.Struct, frozen=True):
    """What a round did."""

    target: str
    seed: int
    messages: int
    """That were sent, whole or in part."""
    closed: int
    """Connections that the exchange closed."""
    orders: int
    """That the exchange took."""
    trades: int
    """Their matches."""


def target_of(seed: int) -> str:
    """What a seed is about, unless it is said."""
    return TARGETS[seed % len(TARGETS)]


def run_round(target: str, seed: int, messages: int = ROUND_MESSAGES) -> Round:
    """One round; what goes wrong is an exception that says which."""
    with TemporaryDirectory(prefix="deltabook-fuzz-") as folder:
        floor = FuzzFloor(Path(folder), seed)
        try:
            episodes = 0
            while floor.messages < messages:
                floor.episode(target)
                episodes += 1
                if episodes % _CHECK_EVERY == 0:
                    floor.check()
            floor.finish()
        except Exception as error:
            error.add_note(f"again: python -m tests.fuzz.exchange --target {target} --seed {seed}")
            raise
        market = floor.exchange.market
        return Round(target, seed, floor.messages, floor.closed, market.orders, market.trades)


def _guarded(target: str, seed: int) -> Round | str:
    """A round in a process; what went wrong in words. A hang ends the process with a traceback."""
    faulthandler.dump_traceback_later(_ROUND_SECONDS, exit=True)
    try:
        return run_round(target, seed)
    except Exception:  # noqa: BLE001 - whatever it is, the report is about it
        return traceback.format_exc()
    finally:
        faulthandler.cancel_dump_traceback_later()


def fuzz(target: str, start: int, seconds: float, jobs: int) -> tuple[list[Round], list[str]]:
    """Rounds of the seeds from ``start`` on until the time is over; and what went wrong."""
    rounds: list[Round] = []
    failures: list[str] = []
    until, seeds = time.monotonic() + seconds, count(start)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        busy: dict[Future[Round | str], tuple[str, int]] = {}
        while True:
            while len(busy) < jobs and time.monotonic() < until:
                seed = next(seeds)
                which = target or target_of(seed)
                busy[pool.submit(_guarded, which, seed)] = which, seed
            if not busy:
                return rounds, failures
            done, _ = wait(busy, return_when=FIRST_COMPLETED)
            for future in done:
                which, seed = busy.pop(future)
                try:
                    found = future.result()
                except BrokenProcessPool:
                    failures.append(f"{which} {seed}: its process ended, or another's: {sorted(busy.values())}")
                    return rounds, failures
                if isinstance(found, Round):
                    rounds.append(found)
                else:
                    failures.append(found)
