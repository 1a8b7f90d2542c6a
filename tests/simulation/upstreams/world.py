"""World of one seed: several runtimes that feed one, their steps, and faults."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from typing import Any, Final

from runtime.engine.ingest import IngestConfig
from runtime.epochs import FencedError, RetentionConfig
from runtime.relations import Retention
from tests.simulation.faults import CrashError, Faults
from tests.simulation.market import Market, MarketShape
from tests.simulation.trace import Trace
from tests.simulation.upstreams.audit import Audit, AuditError
from tests.simulation.upstreams.mishaps import Mishaps
from tests.simulation.upstreams.processes import Runtime, RuntimeShape
from tests.simulation.upstreams.sites import Site

__all__ = ["World"]

_CALM_STEPS: Final = 6_000
_TREES: Final[tuple[dict[str, tuple[str, ...]], ...]] = (
    {"a": (), "main": ("a",)},
    {"a": (), "b": (), "main": ("a", "b")},
    {"a": (), "b": (), "main": ("a", "b")},
    {"a": (), "b": ("a",), "main": ("b",)},
    {"a": (), "main": ("a",), "other": ("a",)},
)
"""Runtime → its upstreams."""
_ACTS: Final = {
    "boot": 3.0, "task": 30.0, "feed": 10.0, "look": 10.0, "market": 6.0, "barrier": 4.0, "call": 4.0, "beat": 1.5,
    "small": 1.5, "crash": 0.4, "arm": 1.2, "error": 0.4, "full": 0.3, "stop": 0.5, "usurp": 0.5, "save": 0.8,
    "power": 1.0, "rewind": 1.0,
}  # fmt: skip
_FAULTS: Final = frozenset({"crash", "arm", "error", "full", "stop", "usurp", "save", "power", "rewind"})


class World(Mishaps):
    """World of one seed. One random generator decides everything, so that a seed replays exactly."""

    def __init__(self, seed: int, trace: Trace) -> None:
        self.chance = chance = random.Random(seed)
        self.trace = trace
        self.counts: Counter[str] = Counter()
        tree = chance.choice(_TREES)
        self._feeds = [name for name, above in tree.items() if not above or chance.random() < 0.2]
        self._tree = tree
        self._sites = {name: Site(name, chance) for name in tree}
        self._markets = {name: Market(chance, MarketShape()) for name in self._feeds}
        self._shape = RuntimeShape(
            ingest=IngestConfig(
                workers=chance.choice((1, 2)),
                in_flight=chance.choice((1, 3, 64)),
                in_flight_bytes=chance.choice((100, 1 << 20)),
                epoch_messages=chance.choice((0, 0, 1, 5)),
            ),
            retention=Retention(rows=chance.choice((3, 10, 1000)), time_ns=chance.choice((200, 10**9))),
            kept=RetentionConfig(epochs=chance.choice((0, 0, 2, 10_000))),
            bases=chance.choice((1, 2)),
            symbols=chance.choice(("prefixed", "shared")),
        )
        self._messages = chance.choice((10, 30, 60))
        self._steps = chance.choice((150, 300))
        self._audits: dict[str, Audit] = {}
        for name in tree:  # upstreams come first in each tree
            own = {"feed": self._markets[name]} if name in self._feeds else {}
            above = {up: self._audits[up] for up in tree[name]}
            nested = {f"{up}/{path}": market for up in tree[name] for path, market in above[up]._markets.items()}
            shape = self._shape.retention, self._shape.symbols
            self._audits[name] = Audit(self._sites[name], self._sites, own | nested, shape, trace, above)
        self._running: dict[str, Runtime] = {}
        self._standing: list[Runtime] = []  # processes that have lost their directory without notice
        self._saved: dict[str, tuple[int, Any]] = {}
        self._now_s = 1.0
        self._starts = 0
        self._is_calm = False
        self._lazy = chance.choice((None, None, *tree))
        """Name of a runtime whose epochs are long."""
        weights = {name: weight * chance.choice((0.5, 1.0, 2.0)) for name, weight in _ACTS.items()}
        self._weights = {
            name: weight for name, weight in weights.items() if name not in _FAULTS or chance.random() < 0.6
        }

    def run(self) -> None:
        """Run the seed from beginning to end; raise the first error."""
        for _ in range(self._steps):
            self._step()
        self._calm_down()
        for _ in range(_CALM_STEPS):
            if self._is_over():
                break
            self._step()
        else:
            raise AuditError(f"expected an end within {_CALM_STEPS} calm steps, was {self._cuts()}")

    def figures(self) -> Counter[str]:
        """Return the number of events of each kind."""
        seen: Counter[str] = Counter()
        for audit in self._audits.values():
            seen["epochs"] += len(audit.footers)
            seen["messages"] += audit.messages
        return self.counts + seen

    def _cuts(self) -> dict[str, Any]:
        return {name: dict(audit.cuts) for name, audit in self._audits.items()}

    def _step(self) -> None:
        self.trace.step += 1
        self.counts["events"] += 1
        self._now_s += 0.001
        acts = list(self._weights)
        for _ in range(20):
            (act,) = self.chance.choices(acts, cum_weights=list(accumulate(self._weights.values())))
            if getattr(self, f"_do_{act}")():
                break
        for audit in self._audits.values():
            audit.look()
        for name, runtime in list(self._running.items()):
            if runtime.failure is not None:
                self._expect_a_fault(runtime.failure)
                if self._guarded(runtime, runtime.stop):  # a process that crashes while it stops is gone already
                    self._gone(name)

    def _guarded(self, runtime: Runtime, call: Callable[[], object]) -> bool:
        """Call a function of a process, during which the process may end."""
        try:
            call()
        except CrashError:
            self.counts["crashes"] += 1
            if runtime in self._standing:
                self._standing.remove(runtime)
            else:
                self._gone(runtime.site.name)
                if self.chance.random() < 0.5:
                    self._cut_power(runtime.site.name)
            return False
        except (OSError, FencedError) as error:
            runtime.on_failed(str(error))
        return True

    def _gone(self, name: str) -> None:
        runtime = self._running.pop(name)
        runtime.crews.forget()
        if not any(other.site.name == name for other in self._running.values()):
            self._sites[name].shelf.is_open = False

    def _cut_power(self, name: str) -> None:
        """Stop a machine whose running process is dead: processes that stand there without their directory end too."""
        self.counts["power cuts"] += 1
        self.trace.say("the machine of {} stops", name)
        for runtime in [runtime for runtime in self._standing if runtime.site.name == name]:
            self._standing.remove(runtime)
            runtime.crews.forget()
        self._sites[name].platter.crash()

    def _expect_a_fault(self, reason: str) -> None:
        self.counts["failures"] += 1
        caused = ("Input/output error", "No space left", "input/output error", "fenced: ")
        if not any(cause in reason for cause in caused):
            raise AuditError(f"expected no failure but by a fault of the world, was: {reason}")

    def _one(self) -> Runtime | None:
        return self.chance.choice(list(self._running.values())) if self._running else None

    # -- kinds of steps, each of which returns False if it is not possible now

    def _do_boot(self) -> bool:
        down = [name for name in self._tree if name not in self._running]
        if not down:
            return False
        self._start(self.chance.choice(down))
        return True

    def _start(self, name: str) -> None:
        self.counts["starts"] += 1
        self._starts += 1
        self.trace.say("{} starts", name)
        market = self._markets.get(name)
        arming: list[Faults] = []

        def arm(faults: Faults) -> None:
            arming.append(faults)
            if not self._is_calm and self.chance.random() < 0.15:
                faults.crash_in = self.chance.randint(0, 15)

        try:
            self._running[name] = Runtime(
                self._sites[name],
                self._sites,
                self._shape,
                self.trace,
                self.chance,
                number=self._starts,
                now_ns=lambda: int(self._now_s * 1e9),
                arm=arm,
                data=(lambda: self._bytes_of(market)) if market else None,
                upstreams=self._tree[name],
            )
            arming[0].crash_in = -1
        except CrashError:
            self.counts["crashes"] += 1
            self._sites[name].shelf.is_open = False
            if self.chance.random() < 0.5:
                self._cut_power(name)

    def _bytes_of(self, market: Market) -> bytes:
        """Return the bytes of the market so far; after its last message, a heartbeat shows that it is complete."""
        lines = b"".join(market.lines)
        return lines + market.heartbeat() if self._is_calm and market.count >= self._messages else lines

    def _do_task(self) -> bool:
        runtime = self.chance.choice([*self._running.values(), *self._standing]) if self._running else None
        if runtime is None:
            return False
        moved = [False]

        def step() -> None:
            moved[0] = runtime.crews.step()
            for _ in range(self.chance.choice((0, 3, 12))):
                runtime.crews.step()

        self._guarded(runtime, step)
        if runtime in self._standing and runtime.failure is not None:
            if "fenced: " not in runtime.failure:
                self._expect_a_fault(runtime.failure)
            self._standing.remove(runtime)
            self.counts["fenced"] += 1
        return moved[0]

    def _do_feed(self) -> bool:
        runtimes = [runtime for runtime in self._running.values() if runtime.feed is not None]
        runtime = self.chance.choice(runtimes) if runtimes else None
        return runtime is not None and runtime.feed is not None and runtime.feed.read()

    def _do_look(self) -> bool:
        runtime, found = self._one(), [False]
        if runtime is None:
            return False

        def look() -> None:
            found[0] = runtime.look()

        self._guarded(runtime, look)
        return found[0]

    def _do_market(self) -> bool:
        growing = [market for market in self._markets.values() if market.count < self._messages]
        if growing:
            self.chance.choice(growing).request()
        return bool(growing)

    def _do_barrier(self) -> bool:
        runtime = self.chance.choice([*self._running.values(), *self._standing]) if self._running else None
        if runtime is not None and runtime.site.name == self._lazy and self.chance.random() < 0.9:
            return False
        if runtime is not None:
            self._guarded(runtime, runtime.ingest.request_barrier)
        return runtime is not None

    def _do_call(self) -> bool:
        waiting = [runtime for runtime in self._running.values() if runtime.calls()]
        if waiting:
            runtime = self.chance.choice(waiting)
            self._guarded(runtime, runtime.run_one)
        return bool(waiting)

    def _do_beat(self) -> bool:
        runtime = self._one()
        if runtime is not None:
            self._guarded(runtime, runtime.beat)
        return runtime is not None

    def _do_small(self) -> bool:
        runtime = self._one()
        if runtime is not None:
            self.counts["upkeeps"] += 1
            self._guarded(runtime, runtime.keep_small)
        return runtime is not None

    # -- the end

    def _calm_down(self) -> None:
        self.trace.say("from here on nothing goes wrong")
        self._is_calm = True
        for runtime in [*self._running.values(), *self._standing]:
            runtime.faults.calm()
        self._weights = {name: max(weight, 2.0) for name, weight in _ACTS.items() if name not in _FAULTS}

    def _is_over(self) -> bool:
        return (
            len(self._running) == len(self._tree)
            and all(market.count >= self._messages for market in self._markets.values())
            and all(audit.is_cut_behind_all() for audit in self._audits.values())
        )
