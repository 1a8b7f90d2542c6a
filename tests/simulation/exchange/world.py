"""World of one seed: clients, connections, one exchange after another, and faults."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final

from exchange_server.errors import ExchangeError
from exchange_server.matching.inputs import AnyInput, Phase, PhaseName, Tick
from tests.simulation.exchange.audit import AuditError, Shadow, check_accounts, check_feed, expect
from tests.simulation.exchange.clients import Client
from tests.simulation.exchange.desks import DESK_BROKER, DeskClient
from tests.simulation.exchange.disk import Platter, SimulatedDisk
from tests.simulation.exchange.mishaps import Mishaps
from tests.simulation.exchange.network import Link
from tests.simulation.exchange.people import clients_of, users_of
from tests.simulation.exchange.process import Process
from tests.simulation.exchange.shape import Shape
from tests.simulation.exchange.sizes import small_sizes
from tests.simulation.exchange.traders import OuchTrader, TextTrader
from tests.simulation.exchange.trading import Trading
from tests.simulation.exchange.vandals import Vandal
from tests.simulation.faults import CrashError, Faults
from tests.simulation.trace import Trace

__all__ = ["World"]

_CALM_STEPS: Final = 3_000
_PHASES: Final[tuple[PhaseName, ...]] = (
    "auction-open", "auction-close", "auction-halt", "halted", "paused", "continuous", "continuous", "continuous",
)  # fmt: skip


class World(Mishaps):
    """World of one seed. One random generator decides everything, so that a seed replays exactly."""

    def __init__(self, seed: int, trace: Trace) -> None:
        self.chance = random.Random(seed)
        self.trace = trace
        self.shape = Shape.of(self.chance)
        self.faults = Faults(self.chance, trace)
        self.counts = self.faults.counts
        self.platter = Platter(self.chance)
        self.shadow = Shadow(self.shape.rules)
        self.history: list[AnyInput] = []
        """Inputs that the exchange has carried out."""
        self.pending: Sequence[AnyInput] = ()
        """Inputs that the exchange was about to carry out."""
        self._is_refused = False
        self.process: Process | None = None
        self.links: list[Link] = []
        self.now_s = 0.0
        self.is_calm = False
        self._users = users_of(self.shape)
        self._port = 1
        self._trading = Trading(self.chance, self.shape)
        self.desk = DeskClient(
            self.chance, trace, self.shape.start_ns, [each.symbol for each in self.shape.rules.instruments]
        )
        self.clock_ns = 0
        self._phase: PhaseName = "auction-open" if self.shape.rules.opens_with_auction else "continuous"
        self.clients = clients_of(self.chance, self.shape)
        self._traders = [client for client in self.clients if isinstance(client, TextTrader | OuchTrader)]
        trace.now_s = lambda: self.process.clock.seconds() if self.process else self.now_s
        acts: dict[str, Callable[[], bool]] = {name: getattr(self, f"_do_{name}") for name in self.shape.weights}
        self._acts = list(acts.values())
        self._weights = list(accumulate(self.shape.weights.values()))

    # -- steps

    def run(self) -> None:
        """Run the seed from beginning to end; raise the first error."""
        with small_sizes():
            self._run()

    def _run(self) -> None:
        for _ in range(self.shape.steps):
            self._step()
        self._calm_down()
        for _ in range(_CALM_STEPS):
            if self._is_settled():
                break
            self._calm_step()
        else:
            raise AuditError(f"expected all clients to have everything within {_CALM_STEPS} steps: {self._state()}")
        self._compare("at the end")
        traded = check_feed(bytes(self.shadow.feeds["text"]))
        check_accounts(self.shadow, traded)
        self.desk.check(self._desk_stream())
        self.shadow.market._check()
        self.counts["lots traded"] += traded[0]

    def figures(self) -> Counter[str]:
        """Return the number of events of each kind."""
        seen = {"inputs": len(self.history), "trades": self.shadow.market.trades}
        seen["logins"] = sum(client.logins for client in self.clients)
        seen["desk fills"], seen["desk logins"] = len(self.desk.spool.fills), self.desk.logins
        return self.counts + Counter(seen)

    def _state(self) -> str:
        messages = self._desk_stream().count(b"\n")
        desk = f"desk has {self.desk.desk.blotter.sequence} of {messages}, "
        return desk + ", ".join(f"{client.name} has {client.count} ({client.is_logged_in})" for client in self.clients)

    def _step(self) -> None:
        self.trace.step += 1
        self.counts["events"] += 1
        if self.process is None and self.chance.random() < 0.5:
            self._guarded(self._boot)
            return
        (act,) = self.chance.choices(self._acts, cum_weights=self._weights)
        self._guarded(act)

    def _guarded(self, act: Callable[[], object]) -> None:
        """Call an act during which the process may end."""
        with contextlib.suppress(CrashError):
            act()
        process = self.process
        if self.faults.is_dead:
            self._ended(process)
        elif process is not None and process.failure:
            self._expect_a_fault(process.failure)
            self._ended(process)

    def _expect_a_fault(self, reason: str) -> None:
        self.counts["failures"] += 1
        self.trace.say("the exchange gives up: {}", reason)
        expect(
            "Input/output error" in reason or "No space left" in reason or "earlier" in reason,
            "expected no failure but by a fault of the disk, was: {}", reason,
        )  # fmt: skip

    def _boot(self) -> None:
        self.faults.reborn()
        if self.is_calm:
            self.faults.calm()
        elif self.faults.is_full and self.chance.random() < 0.5:
            self.faults.is_full = False
        elif self.chance.random() < 0.1:
            self.faults.crash_in = self.chance.randint(0, 20)
        self.counts["starts"] += 1
        self.trace.say("a process starts")
        disk = SimulatedDisk(self.platter, self.faults)
        try:
            anchor_ns = self.shape.start_ns + self.clock_ns
            process = Process(
                disk, self.shape, self._users, self.now_s, anchor_ns, self._before, self._after, self._recovered
            )
        except (ExchangeError, OSError) as error:
            self._expect_a_fault(str(error))
            self._ended(None)
            return
        self.process = process

    def _before(self, batch: Sequence[AnyInput]) -> None:
        # After a batch that could not be written, no other batch may be.
        self._is_refused = bool(self.pending)
        self.pending = self.pending or list(batch)

    def _after(self) -> None:
        expect(not self._is_refused, "expected no batch after a failure of the journal")
        self.history += self.pending
        self.pending = ()

    def _recovered(self, process: Process) -> None:
        """Check after a recovery that all applied inputs are present, with or without the batch of the crash."""
        inputs = process.exchange.inputs
        known = len(self.history)
        if inputs == known + len(self.pending):
            self.history += self.pending
        expect(inputs == len(self.history), "expected {} inputs (or {} more), was {}", known, len(self.pending), inputs)
        self.pending = ()
        self._compare("after a start", process)

    def _compare(self, when: str, process: Process | None = None) -> None:
        process = process or self.process
        assert process is not None
        self.shadow.apply(self.history)
        self.shadow.compare(process.exchange, when)
        for client in self.clients:
            whole = self._stream_of(client)
            expect(whole.startswith(client.stream), "{}: {} has received wrong bytes", when, client.name)

    def _all(self) -> list[Client | DeskClient]:
        return [*self.clients, self.desk]

    def _desk_stream(self) -> bytes:
        return bytes(self.shadow.private[f"text:{DESK_BROKER}"])

    def _stream_of(self, client: Client) -> bytearray:
        if isinstance(client, TextTrader):
            return self.shadow.private[f"text:{client.broker_id}"]
        if isinstance(client, OuchTrader):
            return self.shadow.private[f"ouch:{client.user}"]
        return self.shadow.feeds[client.port]

    def _ended(self, process: Process | None) -> None:
        """Process the death of the process, and perhaps of the machine."""
        if process is not None:
            self.now_s = process.clock.seconds()
        self.process = None
        for link in self.links:
            link.die(self.chance.randint(0, len(link.down)))
        self.links = []
        if self.chance.random() < self.shape.power_share:
            self.counts["power cuts"] += 1
            self.trace.say("the power goes")
            self.platter.stop_machine()
        else:
            self.platter.stop_process()
        self.faults.reborn()

    def _calm_down(self) -> None:
        self.is_calm = True
        self.faults.calm()
        self.desk.fill_disk(is_full=False)
        for link in self.links:
            link.is_cut = link.is_stalled = False

    def _calm_step(self) -> None:
        self.trace.step += 1
        if self.process is None:
            self._guarded(self._boot)
            return
        self.links = [link for link in self.links if not link.is_over]
        for client in self._all():
            if client.link is None:
                self._guarded(lambda client=client: self._connect(client))  # type: ignore[misc]
        moved = False
        for link in list(self.links):
            if link.can_rise:
                link.rise(1 << 20)
                moved = True
            while link.can_fall:
                link.fall(1 << 20)
                moved = True
        self._guarded(lambda: self._advance(0.0 if moved else 0.3))

    def _is_settled(self) -> bool:
        if self.process is None or any(link.up or link.down for link in self.links):
            return False
        self.shadow.apply(self.history)
        return self.desk.is_settled(self._desk_stream()) and all(
            client.is_logged_in and len(client.stream) == len(self._stream_of(client)) for client in self.clients
        )

    # -- kinds of steps, each of which returns False if it is not possible now

    def _do_trade(self) -> bool:
        traders = self._traders if self.chance.random() < 0.1 else [each for each in self._traders if each.is_logged_in]
        if not traders:
            return False
        trader = self.chance.choice(traders)
        for _ in range(self.chance.choice((1, 1, 2, 5))):
            self._trading.ask(trader, self.now_s if self.process is None else self.process.clock.seconds())
        return True

    def _do_desk(self) -> bool:
        if self.desk.link is None and self.process is not None:
            self._connect(self.desk)
            return True
        for _ in range(self.chance.choice((1, 1, 2, 5))):
            self.desk.trade(self._trading.symbol())
        return True

    def _do_move(self) -> bool:
        if self.process is None:
            return False
        most = self.chance.choice((1, 9, 60, 5_000, 5_000))
        moves: list[Callable[[], object]] = [lambda: self._advance(0.0)]
        for link in self.links:
            if link.can_rise:
                moves.append(lambda link=link: link.rise(most))  # type: ignore[misc]
            if link.can_fall:
                moves.append(lambda link=link: link.fall(most))  # type: ignore[misc]
        for _ in range(self.chance.choice((1, 4))):
            self.chance.choice(moves)()
        self.links = [link for link in self.links if not link.is_over]
        return True

    def _advance(self, by_s: float) -> None:
        assert self.process is not None
        self.process.clock.advance(by_s)
        self.desk.advance(by_s)
        if by_s:
            for client in self.clients:
                if client.link is not None:
                    client.send_heartbeat()

    def _do_time(self) -> bool:
        if self.process is None:
            self.now_s += 0.1
        else:
            self._advance(self.chance.choice((0.001, 0.01, 0.3, 1.0)))
        return True

    def _do_connect(self) -> bool:
        free = [client for client in self._all() if client.link is None]
        if self.process is None or not free:
            return False
        self._connect(self.chance.choice(free))
        return True

    def _connect(self, client: Client | DeskClient) -> None:
        assert self.process is not None
        self._port += 1
        self.trace.say("{} connects", client.name)
        link = Link(client, self.process.connect(client.port, self._port), self._port)
        self.links.append(link)
        client.connected(link)

    def _do_vandal(self) -> bool:
        if self.process is None or sum(isinstance(link.client, Vandal) for link in self.links) > 5:
            return False
        self.counts["vandals"] += 1
        self._port += 1
        face = self.chance.choice(("text", "itch", "ouch"))
        vandal = Vandal(self.chance, face)
        link = Link(vandal, self.process.connect(face, self._port), self._port)
        self.links.append(link)
        link.up += vandal.data()
        return True

    def _submit(self, item: AnyInput) -> None:
        assert self.process is not None
        try:
            self.process.exchange.submit([item])
        except ExchangeError as error:
            self.process.fail(str(error))

    def _do_phase(self) -> bool:
        if self.process is None:
            return False
        self._phase = self.chance.choice(_PHASES) if self._phase == "continuous" else "continuous"
        self.trace.say("phase {}", self._phase)
        symbol = self.chance.choice(("", self._trading.symbol()))
        self._submit(Phase(self.process.exchange.next_time_ns(), symbol, self._phase))
        return True

    def _do_tick(self) -> bool:
        if self.process is not None:
            self._submit(Tick(self.process.exchange.next_time_ns()))
        return self.process is not None

    def _do_snapshot(self) -> bool:
        if self.process is None:
            return False
        self.counts["snapshots"] += 1
        self.trace.say("snapshot")
        try:
            self.process.exchange.snapshot()
        except ExchangeError as error:
            self._expect_a_fault(str(error))
        return True

    def _do_sync(self) -> bool:
        if self.process is None:
            return False
        try:
            self.process.exchange.journal.sync()
        except ExchangeError as error:
            self.process.fail(str(error))
        return True
