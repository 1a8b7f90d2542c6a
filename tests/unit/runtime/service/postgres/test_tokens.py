"""Tokens of SQL as PostgreSQL reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from runtime.service.postgres.errors import PostgresError
from runtime.service.postgres.tokens import tokens, unquoted


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.B_1$ = 'it''s'", ["word a", "sign .", "word B_1$", "sign =", "string 'it''s'"]),
        ("-- x\n1 /* a /* b */ c */ 2.5e-3", ["number 1", "number 2.5e-3"]),
        ("$1::int4", ["parameter $1", "sign ::", "word int4"]),
        ("$$a;b$$ $t$ $$ $t$", ["string $$a;b$$", "string $t$ $$ $t$"]),
        (r"E'a\'b' U&'x' U&\"y\"".replace('\\"', '"'), [r"string E'a\'b'", "string U&'x'", 'quoted U&"y"']),
        ('"a""b";', ['quoted "a""b"', "sign ;"]),
        ("é.x", ["word é", "sign .", "word x"]),
        (".5 5. 1_000", ["number .5", "number 5.", "number 1_000"]),
        ("", []),
    ],
)
def test_words_literals_and_signs(text: str, expected: list[str]) -> None:
    assert [f"{token.kind} {token.text}" for token in tokens(text)] == expected


@pytest.mark.parametrize(
    ("text", "position"), [("a 'b", 3), ('x "y', 3), ("/* a /* b */", 1), ("1, $a$ b", 4), ("  E'\\'", 3)]
)
def test_a_literal_without_an_end_is_an_error_at_its_begin(text: str, position: int) -> None:
    with pytest.raises(PostgresError, match="expected") as raised:
        tokens(text)
    assert (raised.value.sqlstate, raised.value.position) == ("42601", position)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ABC", "abc"),
        ('"A""b"', 'A"b'),
        ('U&"A""b"', 'A"b'),
        ("'a''b'", "a'b"),
        ("$$a$$", "a"),
        ("$t$a$$b$t$", "a$$b"),
        ("12", "12"),
    ],
)
def test_what_a_token_stands_for(text: str, value: str) -> None:
    (token,) = tokens(text)
    assert unquoted(token) == value


@given(some.text(alphabet="a1'\"$/*-; \n.:\\é", max_size=30))
def test_tokens_lie_in_order_and_cover_what_is_not_blank(text: str) -> None:
    try:
        found = tokens(text)
    except PostgresError:
        return
    at = 0
    for token in found:
        assert at <= token.begin < token.end
        assert text[token.begin : token.end] == token.text
        between = text[at : token.begin]
        assert not between.strip() or between.lstrip().startswith(("--", "/*"))
        at = token.end
