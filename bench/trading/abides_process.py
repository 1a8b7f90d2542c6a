"""Script that runs a market of value and noise agents in ABIDES; the interpreter must have `abides_markets`.

Its arguments are the seconds of continuous trading, the wakes per second of all value agents together, the numbers of
value and of noise agents, and a seed. The other parameters are those of ABIDES' own configuration `rmsc04`; agents and
the exchange keep no logs of orders and of the book. The script prints events (messages and wakes that the kernel
handled), requests (orders and cancels that the exchange handled) and seconds (of the kernel's loop alone) as one line
of JSON. It imports nothing of this project.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import warnings
from typing import Any

import numpy as np
from abides_core import Kernel
from abides_markets.agents import ExchangeAgent, NoiseAgent, ValueAgent
from abides_markets.messages.order import OrderMsg
from abides_markets.oracles import SparseMeanRevertingOracle
from abides_markets.utils import generate_latency_model

SECOND_NS = 1_000_000_000
OPEN_NS = 1_612_517_400 * SECOND_NS
SYMBOL = "ABM"
MEAN_CENTS = 100_000


class CountingExchange(ExchangeAgent):  # type: ignore[misc]
    """Exchange that counts requests."""

    requests = 0

    def receive_message(self, current_time: Any, sender_id: Any, message: Any) -> None:
        """Count an order message and handle it."""
        self.requests += isinstance(message, OrderMsg)
        super().receive_message(current_time, sender_id, message)


def random_state() -> Any:
    """Return a seeded random state for one agent."""
    return np.random.RandomState(seed=np.random.randint(low=0, high=2**32, dtype="uint64"))


def main(seconds: float, wakes_per_s: float, value_agents: int, noise_agents: int, seed: int) -> None:
    """Run the market once."""
    np.random.seed(seed)
    close_ns = OPEN_NS + int(seconds * SECOND_NS)
    fundamental = {
        "r_bar": MEAN_CENTS, "kappa": 1.67e-16, "sigma_s": 0, "fund_vol": 5e-5, "megashock_lambda_a": 2.77778e-18,
        "megashock_mean": 1000, "megashock_var": 50_000, "random_state": random_state(),
    }  # fmt: skip
    oracle = SparseMeanRevertingOracle(OPEN_NS, close_ns, {SYMBOL: fundamental})
    exchange = CountingExchange(
        0, OPEN_NS, close_ns, [SYMBOL], name="EXCHANGE_AGENT", type="ExchangeAgent", random_state=random_state(),
        book_logging=False, pipeline_delay=0, computation_delay=0, stream_history=500, log_orders=False,
    )  # fmt: skip
    agents: list[Any] = [exchange]
    for _ in range(noise_agents):
        wake_ns = OPEN_NS + int(np.random.rand() * seconds * SECOND_NS)
        agents.append(
            NoiseAgent(
                len(agents), symbol=SYMBOL, starting_cash=10_000_000, wakeup_time=wake_ns, random_state=random_state()
            )
        )
    for _ in range(value_agents):
        agents.append(
            ValueAgent(
                len(agents), symbol=SYMBOL, starting_cash=10_000_000, sigma_n=MEAN_CENTS / 100, r_bar=MEAN_CENTS,
                kappa=1.67e-15, lambda_a=wakes_per_s / value_agents / SECOND_NS, random_state=random_state(),
            )
        )  # fmt: skip
    kernel = Kernel(
        agents,
        start_time=OPEN_NS - SECOND_NS,
        stop_time=close_ns,
        default_computation_delay=50,
        agent_latency_model=generate_latency_model(len(agents)),
        custom_properties={"oracle": oracle},
        random_state=random_state(),
    )
    kernel.initialize()
    gc.collect()
    started = time.perf_counter()
    kernel.runner()
    elapsed = time.perf_counter() - started
    result = {"events": kernel.ttl_messages, "requests": exchange.requests, "seconds": elapsed}
    sys.stdout.write(json.dumps(result) + "\n")


warnings.simplefilter("ignore")
main(float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
