"""A run directory goes on with inputs that are called as what they have brought."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runtime.engine.ingest import EpochWriter
from runtime.service.config import LiveConfig
from runtime.service.errors import ServiceError
from runtime.service.inputs.inputs import check_inputs
from runtime.service.inputs.upstreams import UpstreamConfig
from runtime.service.readers import ReaderService
from runtime.upstreams import Symbols
from tests.generators.upstream_lab import MainRuntime, UpstreamRun, bid


def start(directory: Path, symbols: Symbols) -> None:
    """A runtime begins on the directory, and seals what it has read."""
    upstreams = (UpstreamConfig("a", directory / "a"),)
    config = LiveConfig(directory=directory / "m", upstreams=upstreams, upstream_symbols=symbols)
    writer = EpochWriter(config.directory, lambda: 99, lambda _: None)
    try:
        check_inputs(config, writer)
        writer.seal({}, b"program")
    finally:
        writer.close()
    main = MainRuntime(config.directory, [("a", directory / "a")], symbols)
    main.cut()
    main.stop()


@pytest.mark.parametrize(("first", "then"), [("own", "prefixed"), ("prefixed", "own"), ("prefixed", "shared")])
def test_symbols_keep_the_names_that_their_rows_have(tmp_path: Path, first: Symbols, then: Symbols) -> None:
    """A row that is deleted under another name would stay."""
    UpstreamRun(tmp_path / "a").seal(bid(1))
    start(tmp_path, first)
    start(tmp_path, first)
    with pytest.raises(ServiceError, match=f"expected --upstream-symbols {first}, .* was {then}"):
        start(tmp_path, then)


def test_equally_written_names_may_share_an_origin(tmp_path: Path) -> None:
    UpstreamRun(tmp_path / "a").seal(bid(1))
    for symbols in ("own", "shared", "own"):
        start(tmp_path, symbols)


def test_an_upstream_is_not_called_as_a_reader_that_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cut would stand for both."""
    reader = SimpleNamespace(is_leaving=False, wanted=SimpleNamespace(name="a"))
    monkeypatch.setattr("runtime.service.readers.kept.load", lambda _: SimpleNamespace(readers=[reader]))
    writer: Any = SimpleNamespace(space=None, recovered=None)
    inputs: Any = SimpleNamespace(names=("a",))
    with pytest.raises(ServiceError, match=r"expected another name for the upstream, was a, the name of a reader in "):
        ReaderService(None, LiveConfig(directory=tmp_path), writer, inputs, lambda call: call())
