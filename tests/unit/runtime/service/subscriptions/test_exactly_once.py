"""Whatever happens to connections, processes and the log: spans follow each other and add up to what there is."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest

from runtime.epochs.retention import retire_epochs
from tests.generators.epochs_lab import Connection, EpochsLab, select

SEEDS = range(12)
STEPS = 120


class Client:
    """Adds up what it is told, over any number of connections."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.at: dict[str, int] = {}
        self.rows: dict[str, dict[int, int]] = {name: {} for name in names}
        self.connection: Connection | None = None
        self.snapshots = 0

    def hear(self, truth: dict[int, dict[str, dict[int, int]]]) -> None:
        """Take what came; ``truth``: epoch → view → rows."""
        for frame in self.connection.frames() if self.connection else ():
            head, name = frame.header, frame.header.view
            if head.kind == "snapshot":
                self.rows[name] = {}
                self.snapshots += 1
            else:
                assert head.kind in {"changes", "progress"}
                assert head.from_epoch == self.at[name] < head.to_epoch
            for value, weight in zip(*(frame.rows.to_pydict().values() if frame.rows else ((), ())), strict=True):
                self.rows[name][value] = self.rows[name].get(value, 0) + weight
            self.rows[name] = {value: weight for value, weight in self.rows[name].items() if weight}
            self.at[name] = head.to_epoch
            assert self.rows[name] == truth[head.to_epoch][name], f"{name} at {head.to_epoch}"


class World:
    """A runtime that is killed now and then, and its clients."""

    def __init__(self, directory: Path, chance: random.Random) -> None:
        self.chance = chance
        self.names = ["one", "two"]
        self.directory = directory
        self.lab = self._process()
        self.truth = {self.lab.epoch: self._rows()}
        self.clients = [Client(self.names) for _ in range(3)]
        self.next_value = 1

    def step(self) -> None:
        """Something happens."""
        steps = {self._change: 30, self._epoch: 20, self._half: 5, self._beat: 5, self._read: 15, self._kill: 3}
        of_client = {self._connect: 10, self._lose: 5, self._pause: 10, self._resume: 12}
        client, at_random = self.chance.choice(self.clients), self.chance.random()
        if at_random < 0.01:
            retire_epochs(self.lab.log, max(self.lab.log.first(), self.lab.epoch - 5))
        elif at_random < 0.3:
            self.chance.choices([*of_client], [*of_client.values()])[0](client)
        else:
            self.chance.choices([*steps], [*steps.values()])[0]()
        for one in self.clients:
            one.hear(self.truth)

    def _epoch(self) -> None:
        self.lab.close()
        self._commit()

    def _half(self) -> None:
        """The next epoch has begun when this one is committed."""
        self.lab.close()
        ahead = self._rows()
        self._change()
        self.lab.commit()
        self.truth[self.lab.epoch] = ahead

    def _beat(self) -> None:
        self.lab.hub.heartbeat()

    def _read(self) -> None:
        self.lab.read()

    def _kill(self) -> None:
        for one in self.clients:
            self._lose(one)
        self.lab = self._process()

    def _connect(self, client: Client) -> None:
        if client.connection is None:
            assert self.lab.hub.committed is not None
            run, stops = self.lab.hub.committed.run, self.chance.choice([0, 2])
            client.connection = self.lab.follow(*self.names, start=client.at, run=run, stops_after=stops)

    def _pause(self, client: Client) -> None:
        if client.connection is not None and client.connection.subscription is not None:
            client.connection.subscription.pause()

    def _resume(self, client: Client) -> None:
        if client.connection is not None and client.connection.subscription is not None:
            client.connection.subscription.resume()

    def finish(self) -> None:
        """Everybody comes back and hears of everything."""
        self.lab.close()
        self._commit()
        for _ in range(200):
            for client in self.clients:
                if client.connection is None:
                    client.connection = self.lab.follow(*self.names, start=client.at)
                assert client.connection.subscription is not None
                client.connection.stops_after = 0
                client.connection.subscription.resume()
            self.lab.read()
            self.lab.hub.heartbeat()
            for client in self.clients:
                client.hear(self.truth)
            if all(client.at == dict.fromkeys(self.names, self.lab.epoch) for client in self.clients):
                return
        raise AssertionError([client.at for client in self.clients])

    def _process(self) -> EpochsLab:
        held = self.truth[max(self.truth)] if hasattr(self, "truth") else None
        lab = EpochsLab(self.directory, [select(name) for name in self.names], held, queue_kilobytes=24)
        lab.reads_at_once = False
        return lab

    def _change(self) -> None:
        lab = self.lab
        name = self.chance.choice(self.names)
        held = [value for value, weight in lab.rows[name].items() if weight > 0]
        removed = [-self.chance.choice(held)] if held and self.chance.random() < 0.4 else []
        lab.change(name, self.next_value % 50 + 1, *removed)
        self.next_value += 1

    def _commit(self) -> None:
        rows = self._rows()
        self.lab.commit()
        self.truth[self.lab.epoch] = rows

    def _rows(self) -> dict[str, dict[int, int]]:
        return {name: {v: w for v, w in self.lab.rows[name].items() if w} for name in self.names}

    def _lose(self, client: Client) -> None:
        if client.connection is not None and client.connection.subscription is not None:
            client.hear(self.truth)
            self.lab.hub.unsubscribe(client.connection.subscription)
            client.connection = None


@pytest.mark.parametrize("seed", SEEDS)
def test_spans_tile_and_add_up(seed: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory), random.Random(seed))
        for _ in range(STEPS):
            world.step()
        world.finish()
