"""The whole ingest without a thread: whatever order workers run its tasks in, the epochs are those of the streams."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from runtime.engine.ingest import EpochWriter
from runtime.epochs import Cut
from runtime.relations import Adaptor
from tests.generators.ingest_lab import (
    IngestLab,
    ListSource,
    at_sequence,
    dead_letters,
    feed,
    feed_adaptor,
    footers,
    relations,
    sealed_rows,
    trace,
    trace_adaptor,
)
from tests.harness.stepper import Stepper

FEED = feed(60, per_request=3, bad=(7, 31, 32))
TRACES = [trace(40, seed=seed, bad=(5, 20)) for seed in (1, 2)]


def one(writer: EpochWriter, cut: Cut) -> Adaptor:
    return trace_adaptor(writer, cut, prefix="one_")


def two(writer: EpochWriter, cut: Cut) -> Adaptor:
    return trace_adaptor(writer, cut, prefix="two_")


def cuts(chance: random.Random, data: bytes) -> list[int]:
    return sorted(chance.sample(range(1, len(data)), chance.randint(0, 12)))


def run(directory: Path, seed: int, controls: Sequence[bytes] = ()) -> IngestLab:
    """A feed whose connection breaks now and then, and two traces; barriers are asked for at any step."""
    chance = random.Random(seed)
    lost = [chance.randint(1, 5) for _ in range(chance.randint(0, 2))]
    sources = [
        ListSource(0, FEED, cuts(chance, FEED), lost_after=lost, at=at_sequence(FEED)),
        *[ListSource(n, data, cuts(chance, data)) for n, data in enumerate(TRACES, 1)],
    ]
    makers = [feed_adaptor, one, two]
    stepper = Stepper(seed)
    lab = IngestLab(
        directory,
        list(zip(sources, makers, strict=True)),
        crew=stepper,
        workers=chance.randint(1, 3),
        epoch_messages=chance.choice([0, 4, 25]),
        in_flight=chance.choice([2, 64]),
    )
    sealed: list[int | None] = []
    left = list(controls)
    lab.ingest.start()
    while lab.listener.outcomes.empty() and stepper.step():
        if chance.random() < 0.05:
            lab.ingest.request_barrier()
        if left and chance.random() < 0.02:
            lab.ingest.seal_control(left.pop(0), sealed.append)
    assert lab.listener.outcomes.get_nowait() == "finished"
    epochs = [epoch for epoch in sealed if epoch is not None]
    assert epochs == sorted(set(epochs))
    lab.close()
    return lab


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same streams in one piece, with threads."""
    directory = tmp_path_factory.mktemp("whole")
    sources = [ListSource(n, data) for n, data in enumerate([FEED, *TRACES])]
    makers = [feed_adaptor, one, two]
    assert IngestLab(directory, list(zip(sources, makers, strict=True))).run() == "finished"
    return directory


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_any_order_of_tasks_gives_the_same_relations(
    tmp_path_factory: pytest.TempPathFactory, whole: Path, first: int
) -> None:
    expected = relations(whole)
    for seed in range(first, first + 10):
        directory = tmp_path_factory.mktemp(f"seed{seed}")
        run(directory, seed, [b"one", b"two"])
        found = relations(directory)
        growing = {name for name in found if name.endswith("trades")}  # at most 50 rows stay, by the barrier
        assert {k: v for k, v in found.items() if k not in growing} == {
            k: v for k, v in expected.items() if k not in growing
        }, f"seed {seed}"
        assert sum(f.messages for f in footers(directory)) == sum(f.messages for f in footers(whole)), f"seed {seed}"
        assert sorted(text for _, text in dead_letters(directory)) == sorted(text for _, text in dead_letters(whole))
        controls = [f.control for f in footers(directory) if f.control]
        assert controls == [b"one", b"two"][: len(controls)]


@pytest.mark.parametrize("seed", range(5))
def test_buffers_refused_while_held_come_afterwards(tmp_path: Path, seed: int) -> None:
    stepper = Stepper(seed)
    lab = IngestLab(tmp_path, [(ListSource(0, FEED, at=at_sequence(FEED)), feed_adaptor)], crew=stepper)
    lab.ingest.start()
    lab.ingest.hold(True)
    stepper.run()
    assert (lab.listener.running.is_set(), lab.ingest.waiting_bytes) == (True, 0)
    lab.ingest.hold(False)
    stepper.run()
    assert lab.listener.outcomes.get_nowait() == "finished"
    lab.close()


def test_a_seed_makes_the_same_epochs_again(tmp_path: Path) -> None:
    for seed in (3, 14, 15):
        for again in ("a", "b"):
            run(tmp_path / f"{again}{seed}", seed, [b"one"])
        a, b = tmp_path / f"a{seed}", tmp_path / f"b{seed}"
        assert footers(a) == footers(b)
        assert sealed_rows(a) == sealed_rows(b)
