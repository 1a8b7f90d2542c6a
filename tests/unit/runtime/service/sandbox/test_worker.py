"""Questions run in processes of their own: what becomes of one costs its asker one error, and nobody else anything."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runtime.compiler import Column, SqlError
from runtime.service.sandbox import AnswerRows, AskError, AskLimits, Cancellation, CostlyError, QuestionWorkers, Worker
from runtime.service.sandbox.messages import Given, GivenTable

WAIT_S = 60.0
COLUMNS = (Column("a", "int64"), Column("b", "string", nullable=True))
TABLE = pa.table({"a": pa.array(range(50_000), pa.int64()), "b": ["x"] * 49_999 + [None]})
LONG = "SELECT COUNT(*) FROM range(0, 1000000000000) AS x, range(1000) AS y WHERE x.range % 7 = y.range % 5"
RECURSION = "WITH RECURSIVE n AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM n) SELECT MAX(a) FROM n"
DEAF = (
    "WITH t AS (SELECT repeat('ab', 1000) AS s), u AS (SELECT s || s || s || s AS s FROM t), "
    "v AS (SELECT s || s || s || s || s || s || s || s || s || s || s || s || s || s || s AS s FROM u) "
    "SELECT levenshtein(a.s, b.s || 'c') FROM v AS a, v AS b"
)
"""One call of a function over long values, in which DuckDB does not look for an interrupt."""
TWELVE_GIB = (
    "WITH RECURSIVE r AS (SELECT 0 AS n, 'x' AS s UNION ALL SELECT n + 1, s || s FROM r WHERE n < 31) "
    "SELECT MAX(length(s || s || s || s || s || s)) FROM r WHERE n = 31"
)


@pytest.fixture
def started() -> Iterator[Callable[..., Worker]]:
    """Starts processes with other limits, or with another watch of memory, and ends them with the test."""
    workers: list[Worker] = []

    def start(limits_addresses: bool = sys.platform == "linux", **limits: Any) -> Worker:
        workers.append(Worker(AskLimits(**limits), limits_addresses=limits_addresses))
        workers[-1].await_start()
        return workers[-1]

    yield start
    for worker in workers:
        worker.end()


def answered(worker: Worker, sql: str, tables: Sequence[tuple[str, pa.Table]] = (), **given: Any) -> AnswerRows:
    checked = worker.check(sql, None)
    assert [name for name, _ in checked.question.names] == [name for name, _ in tables]
    wanted = Given(tuple(GivenTable(name, COLUMNS) for name, _ in tables), **given)
    return worker.answer(wanted, [(rows.schema, iter(rows.to_batches(8_192))) for _, rows in tables])


class Asking:
    """A question on a thread, and what became of it."""

    def __init__(self, worker: Worker, sql: str, cancel: Cancellation | None = None) -> None:
        self.result: Any = None
        self._cancel = Cancellation() if cancel is None else cancel
        self._worker, self._is_checked = worker, threading.Event()
        self._thread = threading.Thread(target=self._run, args=(sql,))
        self._thread.start()
        assert self._is_checked.wait(WAIT_S)

    def _run(self, sql: str) -> None:
        try:
            self._worker.await_start()
            with self._cancel.stopping(self._worker):
                self._worker.check(sql, None)
                self._is_checked.set()
                self.result = self._worker.answer(Given(()), [])
        except (AskError, SqlError) as error:
            self.result = error
        finally:
            self._is_checked.set()

    def error(self) -> str:
        """The one error that it has ended with."""
        self._thread.join(WAIT_S)
        assert isinstance(self.result, CostlyError), self.result
        return str(self.result)


def ended(pid: int) -> Callable[[], bool]:
    """Return a call that waits for the end of a process, which need not be a child."""
    descriptor = os.pidfd_open(pid)

    def wait() -> bool:
        return bool(select.select([descriptor], [], [], WAIT_S)[0])

    return wait


def test_rows_go_in_and_come_back_in_batches(started: Callable[..., Worker]) -> None:
    worker = started()
    other = TABLE.slice(0, 3)
    rows = answered(
        worker, "SELECT x.a, y.b FROM bids AS x JOIN asks AS y USING (a) ORDER BY 1", [("bids", TABLE), ("asks", other)]
    )
    assert rows.table.to_pydict() == {"a": [0, 1, 2], "b": ["x", "x", "x"]}
    assert [column.type for column in rows.columns] == ["BIGINT", "VARCHAR"]
    assert answered(worker, "SELECT * FROM bids", [("bids", TABLE)]).table.equals(TABLE)
    assert answered(worker, "SELECT a FROM bids", [("bids", TABLE.slice(0, 0))]).table.num_rows == 0
    described = answered(worker, "SELECT 1.5 AS a", describes=True)
    assert ([column.name for column in described.columns], described.table.num_rows) == (["a"], 0)
    assert answered(worker, "SELECT 1", explains=True).table.column_names == ["QUERY PLAN"]
    assert worker.is_ready


def test_a_refusal_keeps_its_type_place_and_process(started: Callable[..., Worker]) -> None:
    worker = started(answer_rows=10)
    for sql, kind, text in (
        ("SELECT 1 + FROM x", SqlError, r"question:1:\d+: Parser Error"),
        ("SELECT 1; SELECT 2", SqlError, "question: expected one SELECT, was 2 statements"),
        ("SELECT nope", SqlError, "question:1:8: Binder Error"),
        (
            "SELECT * FROM range(11)",
            CostlyError,
            "expected an answer of at most 10 rows, was a longer one: add a LIMIT",
        ),
        ("SELECT error('no') FROM range(3)", (SqlError, AskError), "no"),
    ):
        with pytest.raises(kind, match=text):
            answered(worker, sql)
        assert worker.is_ready
    assert worker.check("SELECT 1 AS OF EPOCH 7", None).epoch == 7
    with pytest.raises(AskError, match="expected one epoch, was 3 and AS OF EPOCH 7"):
        worker.check("SELECT 1 AS OF EPOCH 7", 3)
    assert answered(worker, "SELECT 1 AS a").table.to_pylist() == [{"a": 1}]


def test_tables_that_cannot_be_read_leave_no_half_question(started: Callable[..., Worker]) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from TABLE.to_batches(8_192)
        raise CostlyError("nobody waits")

    worker = started()
    worker.check("SELECT * FROM bids", None)
    with pytest.raises(CostlyError, match="nobody waits"):
        worker.answer(Given((GivenTable("bids", COLUMNS),)), [(TABLE.schema, broken())])
    assert not worker.is_ready


def test_a_killed_process_is_one_error(started: Callable[..., Worker]) -> None:
    worker, other = started(), started()
    asking, undisturbed = Asking(worker, LONG), Asking(other, "SELECT COUNT(*) FROM range(3)")
    os.kill(worker.pid, signal.SIGKILL)
    assert asking.error() == (
        "expected an answer from the question's process, was its end by SIGKILL: it may need too much memory"
    )
    assert not worker.is_ready
    undisturbed._thread.join(WAIT_S)
    assert undisturbed.result.table.num_rows == 1


def test_a_process_that_is_killed_between_rows_is_one_error(started: Callable[..., Worker]) -> None:
    """Whether it is about to read rows or to write them."""
    reading, writing = started(), started(answer_rows=10**9)

    def killing() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(TABLE.to_batches(8_192) * 10):
            if number == 3:
                os.kill(reading.pid, signal.SIGKILL)
            yield batch

    class Cut:
        """Replies whose process is killed after so many bytes."""

        def __init__(self, replies: Any, left_bytes: int) -> None:
            self._replies, self._left_bytes = replies, left_bytes

        def read(self, size: int) -> bytes:
            self._left_bytes -= size
            if self._left_bytes < 0:
                os.kill(writing.pid, signal.SIGKILL)
            data: bytes = self._replies.read(size)
            return data

        def close(self) -> None:
            self._replies.close()

    reading.check("SELECT * FROM bids", None)
    with pytest.raises(CostlyError, match="was its end by SIGKILL"):
        reading.answer(Given((GivenTable("bids", COLUMNS),)), [(TABLE.schema, killing())])
    writing._replies = Cut(writing._replies, 1_000_000)  # type: ignore[assignment]
    with pytest.raises(CostlyError, match="was its end by SIGKILL"):
        answered(writing, "SELECT * FROM range(10000000)")


def test_a_process_goes_on_to_start_for_the_next_question() -> None:
    """Else a machine that starts one slowly would never have one."""

    def give_up() -> None:
        raise CostlyError("expected an answer within 10 s, was a question that takes longer")

    worker = Worker(AskLimits())
    try:
        os.kill(worker.pid, signal.SIGSTOP)
        with pytest.raises(CostlyError, match="expected an answer within 10 s"):
            worker.await_start(give_up)
        assert worker.is_ready
        os.kill(worker.pid, signal.SIGCONT)
        worker.await_start()
        assert answered(worker, "SELECT 1 AS a").table.to_pylist() == [{"a": 1}]
    finally:
        worker.end()


def test_what_is_no_reply_ends_the_process(started: Callable[..., Worker]) -> None:
    worker = started()
    worker._replies = BytesIO(b"\xff\xff\xff\xff")
    with pytest.raises(AskError, match="expected an answer from the question's process, was expected a message"):
        worker.check("SELECT 1", None)
    assert not worker.is_ready


@pytest.mark.parametrize("limits_addresses", sorted({sys.platform == "linux", False}))  # without: it watches itself
def test_a_question_of_twelve_gib_is_refused(started: Callable[..., Worker], limits_addresses: bool) -> None:
    """DuckDB's limit does not count what an expression makes; the limit of the process does."""
    worker = started(limits_addresses, growth_bytes=512 << 20, memory_bytes=64 << 30)
    with pytest.raises(CostlyError, match="the process grows by at most 512 MiB, was one that needs more"):
        answered(worker, TWELVE_GIB)
    assert not worker.is_ready


@pytest.mark.parametrize("condition", ["", " WHERE x.range < y.range", " WHERE x.range % 7 = y.range % 5"])
def test_a_cross_join_without_an_end_is_refused(started: Callable[..., Worker], condition: str) -> None:
    sql = f"SELECT COUNT(*) FROM range(0, 1000000000000) AS x, range(0, 1000000000000) AS y{condition}"
    worker = started(memory_bytes=64 << 20)
    with pytest.raises(CostlyError, match="expected a question within 64 MiB of memory, was one that needs more"):
        answered(worker, sql)
    assert answered(worker, "SELECT 1 AS a").table.to_pylist() == [{"a": 1}]


@pytest.mark.parametrize("sql", [LONG, RECURSION])
def test_what_is_cancelled_is_interrupted_and_the_process_stays(started: Callable[..., Worker], sql: str) -> None:
    worker, cancel = started(seconds=600.0), Cancellation()
    asking = Asking(worker, sql, cancel)
    cancel.stop("no client waits for the answer any more")
    assert asking.error() == "no client waits for the answer any more"
    assert worker.is_ready
    assert answered(worker, "SELECT 1 AS a").table.to_pylist() == [{"a": 1}]


def test_what_is_not_to_be_interrupted_is_killed(started: Callable[..., Worker]) -> None:
    worker, cancel = started(seconds=600.0), Cancellation()
    asking = Asking(worker, DEAF, cancel)
    cancel.stop("the runtime stops")
    cancel.kill()
    assert asking.error() == "the runtime stops"
    assert not worker.is_ready


def test_what_is_cancelled_before_it_runs_does_not_run(started: Callable[..., Worker]) -> None:
    worker, cancel = started(), Cancellation()
    cancel.stop("the reason")
    with pytest.raises(CostlyError, match="the reason"), cancel.stopping(worker):
        raise AssertionError("expected the question not to begin")
    worker.check(LONG, None)
    worker.interrupt()
    with pytest.raises(CostlyError, match="interrupted"):
        worker.answer(Given(()), [])
    assert worker.is_ready


@pytest.mark.skipif(sys.platform != "linux", reason="waits for processes that are no children by their descriptors")
def test_a_process_ends_with_a_runtime_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from runtime.service.sandbox import AskLimits, Worker\n"
        "from runtime.service.sandbox.messages import Given\n"
        "idle, busy = Worker(AskLimits(seconds=600.0)), Worker(AskLimits(seconds=600.0))\n"
        "idle.await_start()\n"
        "busy.await_start()\n"
        f"busy.check({LONG!r}, None)\n"
        "print(idle.pid, busy.pid, flush=True)\n"
        "busy.answer(Given(()), [])\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        waits = [ended(int(pid)) for pid in parent.stdout.readline().split()]
        assert len(waits) == 2
        parent.kill()
        assert all(wait() for wait in waits)


def files_open_in(pid: int) -> list[str]:
    """The files that the process has open, without its memory limit, which DuckDB reads now and then."""
    targets = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed after the folder was listed
            targets.append(str(link.readlink()))
    limits = (f"/proc/{pid}/cgroup", "/sys/fs/cgroup/")
    return [target for target in targets if not target.startswith(("pipe:", *limits)) and "(deleted)" not in target]


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="reads the environment of a process in /proc")
def test_nothing_secret_is_in_the_environment(started: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELTABOOK_TOKEN", "0123456789abcdef")
    worker = started()
    answered(worker, "SELECT 1")
    names = {line.split(b"=")[0].decode() for line in Path(f"/proc/{worker.pid}/environ").read_bytes().split(b"\0")}
    assert names <= {
        "", "ARROW_DEFAULT_MEMORY_POOL", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "MALLOC_ARENA_MAX", "PYTHONHOME",
        "PYTHONPATH", "TZ",
    }  # fmt: skip
    assert files_open_in(worker.pid) == []


def test_processes_are_kept_and_replaced() -> None:
    workers = QuestionWorkers(AskLimits())
    try:
        one, two = workers.take(), workers.take()
        assert one.pid != two.pid
        both = [Asking(one, LONG), Asking(two, LONG)]
        for asking, worker in zip(both, (one, two), strict=True):
            worker.interrupt()
            assert "interrupted" in asking.error()
        workers.give(two)
        assert workers.take() is two
        one.kill()
        workers.give(one)
        replaced = workers.take()
        assert replaced.pid not in {one.pid, two.pid}
        workers.give(two)
        os.kill(two.pid, signal.SIGKILL)
        two._process.wait(WAIT_S)
        assert workers.take() is not two
    finally:
        workers.close()


def test_a_closed_pool_leaves_no_process() -> None:
    workers = QuestionWorkers(AskLimits())
    idle, busy = workers.take(), workers.take()
    workers.give(idle)
    asking = Asking(busy, LONG)
    workers.close()
    assert "was its end by SIGKILL" in asking.error()
    workers.give(busy)
    assert not idle.is_ready
    assert not busy.is_ready
    with pytest.raises(CostlyError, match="the runtime stops"):
        workers.take()


@pytest.mark.parametrize("call", [(os, "pipe"), (tempfile, "TemporaryFile")])
def test_a_lack_of_descriptors_is_an_error_of_the_question(
    monkeypatch: pytest.MonkeyPatch, call: tuple[Any, str]
) -> None:
    def fail(*args: object) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(*call, fail)
    with pytest.raises(AskError, match=r"expected a .* for the question, was .*Too many open files"):
        Worker(AskLimits())
