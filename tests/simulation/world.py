"""World of one seed: the steps of its parts, and faults."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import accumulate
from typing import Final

import msgspec

from tests.simulation.audit import Audit, AuditError
from tests.simulation.edges import simulated_edges
from tests.simulation.express import ExpressAudit
from tests.simulation.faults import CrashError
from tests.simulation.machine import Machine
from tests.simulation.market import Market
from tests.simulation.mishaps import Mishaps
from tests.simulation.network import FeedServer, Network
from tests.simulation.process import Process
from tests.simulation.shape import Shape
from tests.simulation.spark import Checkpoint
from tests.simulation.trace import Trace

__all__ = ["World"]

_CALM_STEPS: Final = 12_000
_DARK_STEPS: Final = 30
"""Largest number of steps for which a process stays down."""
_MOVED: Final = 0.15
"""Share of the starts on an existing run at which the run is moved first."""


class World(Mishaps):
    """World of one seed. One random generator decides everything, so that a seed replays exactly."""

    def __init__(self, seed: int, trace: Trace) -> None:
        self.chance = random.Random(seed)
        self._moves = random.Random(~seed)  # separate, so that seeds without a move keep their course
        self.trace = trace
        self.shape = Shape.of(self.chance)
        self.market = Market(self.chance, self.shape.market)
        self.server = FeedServer(self.market, trace)
        self.network = Network(self.chance, self.server, trace)
        self.machine = Machine(self.chance, self.network, trace)
        config = self.shape.process
        if self.shape.reads_file:
            while self.market.count < self.shape.messages:
                self.market.request()
            config = msgspec.structs.replace(config, feed=b"".join(self.market.lines) + self.market.heartbeat())
        self.config = config
        self.audit = Audit(self.machine.platter, self.market, config.table, config.retention, trace)
        self.faults = self.machine.faults
        self.faults.bad_tasks = self.shape.bad_tasks
        self.counts = self.faults.counts
        self.process: Process | None = None
        self.now_s = 0.0
        self.is_calm = False
        trace.now_s = lambda: self.process.reactor.seconds() if self.process else self.now_s
        acts: dict[str, Callable[[], bool]] = {
            name.removeprefix("_do_"): getattr(self, name) for name in dir(self) if name.startswith("_do_")
        }
        self._acts = [acts[name] for name in self.shape.weights]
        self._weights = list(accumulate(self.shape.weights.values()))
        self._back_at = -1
        self._hub_seen = 0
        self._express: list[ExpressAudit] = []

    def run(self) -> None:
        """Run the seed from beginning to end; raise the first error."""
        machine, scale = self.machine, self.shape.byte_scale
        used = lambda path: machine.platter.bytes_under(path) * scale  # noqa: E731
        with simulated_edges(machine.disk, machine.threads, used):
            for _ in range(self.shape.steps):
                self._step()
            self._calm_down()
            for _ in range(_CALM_STEPS):
                if self._is_over():
                    break
                self._step()
            else:
                raise AuditError(f"expected an end within {_CALM_STEPS} calm steps, was none: {self._state()}")
            self.audit.finished()

    def figures(self) -> Counter[str]:
        """Return the number of events of each kind."""
        audit = self.audit
        seen = {"messages": audit.messages, "epochs": audit.epochs, "versions": audit.versions, "fulls": audit.fulls}
        seen["express versions"] = sum(express.updates for express in self._express)
        return self.counts + Counter(seen)

    def _step(self) -> None:
        self.trace.step += 1
        self.counts["events"] += 1
        if self.trace.step == self._back_at:
            self._restore()
        try:
            for _ in range(20):
                (act,) = self.chance.choices(self._acts, cum_weights=self._weights)
                if act():
                    break
        except CrashError:
            self._crashed()
        self.audit.look()
        if self.process is not None and self.process.results.latest() == self.audit.version:
            self.audit.promised = self.audit.version
        self._look_at_hub()
        process = self.process
        if process is not None and process.failure is not None:
            self._expect_a_fault(process.failure)
            self._stop("stopped after its failure")
        elif process is not None and process.is_degraded and self.is_calm:
            self._stop("stopped, as a source has failed")

    def _look_at_hub(self) -> None:
        if self.process is not None and self.process.hub.version != self._hub_seen:
            self._hub_seen = self.process.hub.version
            self.audit.hub(self.process.hub)

    def _crashed(self) -> None:
        process, self.process = self.process, None
        self._hub_seen = 0
        if process is not None:
            process.is_gone = True
            self.now_s = process.reactor.seconds()
        self.audit.look()
        self.machine.kill(powers_off=self.chance.random() < self.shape.power_share)
        self.audit.crashed()

    def _stop(self, why: str) -> None:
        assert self.process is not None
        self.trace.say("{}", why)
        try:
            self.process.stop()
        except CrashError:
            self._crashed()
        else:
            self.process.is_gone = True
            self.now_s = self.process.reactor.seconds()
            self.process = None
            self.machine.crews.forget()
            self._hub_seen = 0
            self.network.forget()

    def _expect_a_fault(self, reason: str) -> None:
        """Check that a failure of the runtime was caused by one of the world's faults."""
        self.counts["failures"] += 1
        caused = ("Input/output error", "No space left", "input/output error", "refused (session)", "in 6 attempts")
        if not any(cause in reason for cause in caused):
            raise AuditError(f"expected no failure but by a fault of the world, was: {reason}")

    # -- kinds of steps, each of which returns False if it is not possible now

    def _do_boot(self) -> bool:
        if self.process is not None:
            return False
        self.faults.reborn()
        self.counts["starts"] += 1
        self.trace.say("a process starts")
        if self.chance.random() < self.shape.crash_at_start and not self.is_calm:
            self.faults.crash_in = self.chance.randint(0, 12)
        if self._moves.random() < _MOVED and self.counts["starts"] > 1:
            self.counts["moves"] += 1
            shards = self._moves.randint(1, 3)
            self.trace.say("the run was moved: Spark begins anew with {} shards", shards)
            self.machine.checkpoint = Checkpoint(shards)
        try:
            self.process = Process(self.machine, self.config, self.now_s)
        except OSError as error:
            self._expect_a_fault(str(error))
            return True
        self.audit.reopened()
        self._look_at_hub()
        express = ExpressAudit(self.audit, self.market, self.shape.process.retention, self.process.hub)
        self.process.on_update = express.take
        self._express.append(express)
        self.process.start()
        return True

    def _do_task(self) -> bool:
        if not self.machine.crews.step():
            return False
        for _ in range(self.chance.choice((0, 2, 15))):
            self.machine.crews.step()
        if self.process is not None and self.chance.random() < 0.2:
            self.process.check()
        return True

    def _do_network(self) -> bool:
        if self.process is None:
            return False
        links = self.network.movable()
        choices: list[Callable[[], None]] = [lambda link=link: self.network.move(link) for link in links]  # type: ignore[misc]
        if self.network.attempts:
            choices.append(self.network.settle)
        if self.process.reactor.waiting:
            choices.append(self.process.reactor.run_one)
        due = self.process.reactor.next_due_s()
        if due is not None and due <= self.process.reactor.seconds():
            choices.append(lambda: self._advance(0))
        if not choices:
            return False
        self.chance.choice(choices)()
        return True

    def _advance(self, by_s: float) -> None:
        assert self.process is not None
        self.process.reactor.advance(by_s)

    def _do_time(self) -> bool:
        if self.process is None:
            self.now_s += 0.1
            return True
        due = self.process.reactor.next_due_s()
        by_s = 0.05 if due is None else max(0.0, min(due - self.process.reactor.seconds(), 1.0))
        self._advance(by_s)
        if self.server.links and self.chance.random() < 0.5:
            self.server.send(self.market.heartbeat())
        return True

    def _do_market(self) -> bool:
        if self.market.count >= self.shape.messages:
            return False
        before = self.market.count
        for _ in range(self.chance.choice((1, 2, 5, 10))):
            self.market.request()
        self.trace.say("messages {} to {}", before + 1, self.market.count)
        self.server.send(b"".join(self.market.lines[before:]))
        return True

    def _do_barrier(self) -> bool:
        if self.process is None:
            return False
        self.counts["barriers"] += 1
        self.trace.say("barrier")
        self.process.ingest.request_barrier()
        return True

    def _do_spark(self) -> bool:
        if self.process is None or not self.process.spark.can_go_on(self.audit.epochs - 1):
            return False
        try:
            self.process.spark.go_on()
        except OSError as error:
            if isinstance(error, FileNotFoundError | FileExistsError):
                raise
            self.process.on_failed(str(error))
        return True

    def _do_file(self) -> bool:
        if self.process is None:
            return False
        files = [file for file in self.process.files if file.can_read]
        if files:
            self.chance.choice(files).read()
        return bool(files)

    def _do_catalogue(self) -> bool:
        if self.process is None or self.is_calm:
            return False
        process, names = self.process, {view.name for view in self.process.catalogue.program.views}
        others = [view for view in self.shape.views if view.select.name not in names]
        if others and (len(names) < 2 or self.chance.random() < 0.6):
            added = self.chance.choice(others).select
            self.trace.say("add view {}", added.name)
            process.change((added,))
        elif len(names) > 1:
            dropped = self.chance.choice(sorted(names))
            self.trace.say("drop view {}", dropped)
            process.change(drop=dropped)
        else:
            return False
        self.counts["catalogue changes"] += 1
        return True

    def _do_upkeep(self) -> bool:
        if self.process is None:
            return False
        if not self.machine.threads.waiting:
            self.process.upkeep.look()
            return True
        self.trace.say("upkeep")
        self.counts["upkeeps"] += 1
        self.machine.threads.run_one()
        for failure in sorted(self.process.upkeep._failures):
            self._expect_a_fault(failure)
        return True

    # -- the end

    def _calm_down(self) -> None:
        self.trace.say("from here on nothing goes wrong")
        self.is_calm = True
        self.faults.calm()
        self._restore()
        if self.process is not None:
            self.process.view.breaks_in = -1
        kept = {"boot", "task", "network", "time", "market", "barrier", "spark", "file", "upkeep"}
        weights = {
            name: 1.0 if name == "barrier" else max(weight, 2.0)
            for name, weight in self.shape.weights.items()
            if name in kept
        }
        self._acts = [getattr(self, f"_do_{name}") for name in weights]
        self._weights = list(accumulate(weights.values()))

    def _is_over(self) -> bool:
        process = self.process
        if process is None or self.market.count < self.shape.messages:
            return False
        last = max((n for n, m in enumerate(self.market.messages, 1) if m is not None), default=0)
        return (
            self.audit.is_cut_at(last)
            and all(file.is_over for file in process.files)
            and not process.ingest.holds_any
            and self.audit.version == self.audit.epochs - 1
            and not self.machine.crews.step()
            and not process.spark.can_go_on(self.audit.epochs - 1)
        )

    def _state(self) -> str:
        links = [(len(link.to_client), link.is_paused, link.is_silent, link.closing) for link in self.server.links]
        return f"links {links}, epoch {self.audit.epochs - 1}, version {self.audit.version}"
