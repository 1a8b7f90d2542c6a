"""Puts bugs into the exchange, one at a time, and reports after how many seeds the simulation has found each.

::

    python -m tests.simulation.exchange.bugs [--seeds 1000] [--jobs 2] [--only WORDS]
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.simulation.bugs import bug_hunt, load_bugs

__all__ = ["BUGS", "SIMULATION"]

SIMULATION: Final = "tests.simulation.exchange"

BUGS: Final = load_bugs(Path(__file__).with_name("bugs.toml"))
"""Bugs of the exchange."""


if __name__ == "__main__":
    bug_hunt(
        "Put every bug that is written down into the exchange, and see the simulation find it.", BUGS, SIMULATION
    )()
