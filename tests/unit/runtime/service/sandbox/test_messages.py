"""Messages over pipes have an end: what the other side writes is not believed."""

from __future__ import annotations

from io import BytesIO

import msgspec
import pyarrow as pa
import pytest

from deltabook.wire.service import AnsweredColumn
from runtime.service.sandbox.messages import Answered, AskedQuestion, Ended, Given, GivenTable, Refused, receive, send
from runtime.service.sandbox.messages import arrow_stream as stream_of

MESSAGES = (
    AskedQuestion(3, "SELECT 1", None),
    Given((GivenTable("bids"),), 5, ("CREATE MACRO a() AS 1",), 7, describes=True),
    Answered((AnsweredColumn("a", "BIGINT"),)),
    Ended(Refused("sql", "no", "question", 1, 2), is_spent=True),
)


def test_messages_arrive_as_they_were_sent() -> None:
    pipe = BytesIO()
    for message in MESSAGES:
        send(pipe, message)
    pipe.seek(0)
    assert tuple(receive(pipe, AskedQuestion | Given | Answered | Ended) for _ in MESSAGES) == MESSAGES
    with pytest.raises(EOFError):
        receive(pipe, AskedQuestion)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"\0\0\0\5ab", EOFError),
        (b"\xff\xff\xff\xff", ValueError),
        (b"\0\0\0\1\xc1", msgspec.DecodeError),
        (b"\0\0\0\1\x80", msgspec.ValidationError),
    ],
)
def test_what_is_no_message_is_an_error(data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        receive(BytesIO(data), AskedQuestion)


def test_a_stream_may_not_be_longer_than_its_limit() -> None:
    pipe, table = BytesIO(), pa.table({"a": list(range(1000))})
    with pa.ipc.new_stream(pa.PythonFile(pipe, "w"), table.schema) as writer:
        writer.write_table(table, 100)
    send(pipe, MESSAGES[0])
    pipe.seek(0)
    assert stream_of(pipe, 100_000).read_all().equals(table)
    assert receive(pipe, AskedQuestion) == MESSAGES[0]
    pipe.seek(0)
    with pytest.raises(ValueError, match="expected a stream of at most 4000 bytes, was a longer one"):
        stream_of(pipe, 4_000).read_all()
