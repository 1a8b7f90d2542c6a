"""Whatever a page says, no exception leaves the service, and no other page notices."""

from __future__ import annotations

import pytest

from tests.fuzz.trading.driver import run_round


@pytest.mark.parametrize("seed", range(4))
def test_the_stream_survives_some_broken_messages(seed: int) -> None:
    done = run_round(seed)
    assert done.messages >= 400
    assert done.frames
    assert done.closed


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_the_stream_survives_many_broken_messages() -> None:
    for seed in range(1_000, 1_500):
        run_round(seed)
