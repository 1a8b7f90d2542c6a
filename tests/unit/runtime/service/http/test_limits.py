"""What a client may take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from runtime.service.http.limits import Connections, Rates, client_of
from runtime.service.http.routes import Refusal
from runtime.service.http.rows import chosen


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(1, 30)), max_size=30))
def test_nobody_gets_more_than_a_burst_and_the_rate(moments: list[tuple[float, int]]) -> None:
    clock = Clock()  # type: ignore[no-untyped-call, unused-ignore]
    rates = Rates(5.0, 10, 100, clock.seconds)
    let = 0
    for wait_s, asked in moments:
        clock.advance(wait_s)
        answers = [rates.wait_s("c") for _ in range(asked)]
        let += answers.count(0.0)
        assert let <= 10 + 5 * clock.seconds() + 1e-6
        if any(answers):
            assert 0 < max(answers) <= 1 / 5


def test_who_waits_as_long_as_he_is_told_is_let_in() -> None:
    clock = Clock()  # type: ignore[no-untyped-call, unused-ignore]
    rates = Rates(4.0, 1, 100, clock.seconds)
    assert rates.wait_s("c") == 0
    clock.advance(rates.wait_s("c"))
    assert rates.wait_s("c") == 0


def test_counted_clients_are_bounded_to_the_newest() -> None:
    clock = Clock()  # type: ignore[no-untyped-call, unused-ignore]
    rates = Rates(1.0, 1, 3, clock.seconds)
    for client in ("a", "b", "c", "a", "d"):
        rates.wait_s(client)
    assert len(rates) == 3
    assert rates.wait_s("a") > 0
    assert rates.wait_s("b") == 0


@pytest.mark.parametrize(
    ("host", "client"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("", ""),
        ("unix", "unix"),
    ],
)
def test_a_client_is_an_address_or_a_network(host: str, client: str) -> None:
    assert client_of(host) == client


def test_connections_are_forgotten_with_their_end() -> None:
    connections = Connections(2, 1)
    assert not connections.taken("a")
    assert connections.taken("a").startswith("expected at most 1 connections of a")
    assert not connections.taken("b")
    assert connections.taken("c").startswith("expected at most 2 connections")
    connections.lost("a")
    assert not connections.taken("a")
    assert connections.open == 2


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (None, "a/json"),
        ("", "a/json"),
        ("*/*", "a/json"),
        ("b/arrow", "b/arrow"),
        ("b/arrow, a/json", "a/json"),
        ("b/arrow, a/json;q=0.9", "b/arrow"),
        ("a/json;q=0, */*;q=0.1", "b/arrow"),
        ("b/*", "b/arrow"),
        ("*/*, a/json;q=0.5", "b/arrow"),
        ("A/JSON; charset=utf-8", "a/json"),
        ("c/html", ""),
        ("a/json;q=x", ""),
        ("a/json;q=nan", ""),
        (";;,,", ""),
    ],
)
def test_the_type_is_the_one_that_is_liked_best(accept: str | None, wanted: str) -> None:
    offered = ["a/json", "b/arrow"]
    if wanted:
        assert chosen(accept, offered) == wanted
    else:
        with pytest.raises(Refusal) as refused:
            chosen(accept, offered)
        assert refused.value.status == 406
