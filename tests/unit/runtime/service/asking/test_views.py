"""Views of both lanes at an epoch: what was published, and what they changed since taken back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from runtime.compiler import extend_program
from runtime.epochs import EpochLogReader, Footer
from runtime.service.at_epochs import EpochGoneError, PublishedView, ViewsAtEpochs, published_views
from runtime.service.sandbox import AskError, Cancellation
from runtime.service.subscriptions import History
from tests.generators.epochs_lab import RELATION, EpochsLab, select


class Lab(EpochsLab):
    """With a clock, on which subscriptions end."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, [select("one"), select("two", "spark")])
        self.clock: Any = Clock()  # type: ignore[no-untyped-call, unused-ignore]
        history = History(path / "epochs", self.results)
        self.views = ViewsAtEpochs(lambda: EpochLogReader(path / "epochs"), history)

    def published(self, *names: str) -> list[Any]:
        """What it has fired with, so far."""
        found: list[Any] = []
        published_views(self.hub, names, self.clock).addBoth(found.append)
        self.clock.advance(0)
        return found

    def at(self, name: str, epoch: int) -> list[int]:
        """A view's rows at an epoch."""
        (found,) = self.published(name)
        assert isinstance(found[name], PublishedView)
        table = self.views.at(found[name], epoch, Cancellation())
        assert set(table["weight"].to_pylist()) <= {1}
        return sorted(table["a"].to_pylist())


def test_a_view_at_each_epoch_of_either_lane(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    for values in ((1, 2), (3, -1), (), (4,)):
        lab.epoch_of("one", *values)
    lab.spark(1, {"two": [5]})
    lab.spark(3, {"two": [6, -5]})
    assert [lab.at("one", epoch) for epoch in range(5)] == [[], [1, 2], [2, 3], [2, 3], [2, 3, 4]]
    assert [lab.at("two", epoch) for epoch in (1, 3)] == [[5], [6]]
    with pytest.raises(EpochGoneError, match="epoch 2 is retired, or not the end of one of Spark's batches"):
        lab.at("two", 2)
    with pytest.raises(AskError, match="expected an epoch up to 3, the newest published of view two, was 4"):
        lab.at("two", 4)


def test_an_open_epoch_is_awaited_up_to_the_given_time(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.epoch_of("one", 1)
    lab.change("one", 2)
    found = lab.published("one")
    assert found == []
    lab.close()
    lab.change("one", 3)
    lab.commit()
    assert sorted(found[0]["one"].rows["a"].to_pylist()) == [1, 2]
    given_up = published_views(lab.hub, ["one"], lab.clock)
    given_up.addErrback(lambda _: None)
    given_up.cancel()
    lab.clock.advance(0)
    assert lab.hub.subscribers == 0


def test_a_view_that_has_failed_is_no_answer(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.spark(0 + lab.epoch_of("one", 1), {}, {"two": "too large"})
    (found,) = lab.published("two")
    assert isinstance(found, Failure)
    assert "view two failed: too large" in str(found.value)
    assert lab.hub.subscribers == 0


def test_a_view_that_was_not_there_yet_has_no_answer(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.epoch_of("one", 1)
    begun = lab.catalogue(extend_program(lab.program, [select("three")], [RELATION]), {"three": [7]})
    assert lab.at("three", begun) == [7]
    with pytest.raises(EpochGoneError, match=f"expected an epoch at which view three exists, was {begun - 1}"):
        lab.at("three", begun - 1)
    lab.catalogue(extend_program(lab.program, [select("four", "spark")], [RELATION]))
    lab.hub.publish(Footer(0, 3), {}, {}, lab.program)
    with pytest.raises(EpochGoneError, match="view four begins at epoch 1, was asked for at epoch 0"):
        lab.at("four", 0)


def test_after_a_restart_epochs_before_it_are_there(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    for value in (1, 2, 3):
        lab.epoch_of("one", value)
    again = Lab(tmp_path)
    assert [again.at("one", epoch) for epoch in range(4)] == [[], [1], [1, 2], [1, 2, 3]]
