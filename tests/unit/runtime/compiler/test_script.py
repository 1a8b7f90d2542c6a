"""Scripts: declarations as they are found in the wild, includes, names, and errors that say where."""

from __future__ import annotations

from pathlib import Path

import pytest

from queries import QUERIES_DIR
from runtime.compiler import Column, DeclaredFile, DeclaredSocket, MissingFileError, Script, SqlError, read_script
from runtime.compiler import parse_script as parse
from tests.generators.traces import trace

BIDS = """CREATE STREAM bids(t FLOAT, id INT, broker_id INT, volume FLOAT, price FLOAT)
  FROM FILE 'trace.csv' LINE DELIMITED orderbook (book := 'bids', brokers := '10', deterministic := 'yes');
"""


def script(text: str, tmp_path: Path, name: str = "some.sql") -> Script:
    return parse(text, name=name, base_dir=tmp_path)


def test_an_order_book_holds_exact_integers_always(tmp_path: Path) -> None:
    (stream,) = script(BIDS, tmp_path).streams
    assert stream.columns == tuple(Column(name, "int64") for name in ("t", "id", "broker_id", "volume", "price"))
    assert (stream.adaptor, stream.options["brokers"], stream.is_table) == ("orderbook", "10", False)
    assert stream.position == (1, 1)


@pytest.mark.parametrize(
    ("tail", "options"),
    [
        ("LINE DELIMITED CSV (delimiter := '|', deletions := 'true')", {"delimiter": "|", "deletions": "true"}),
        ("LINE DELIMITED csv", {}),
        ("LINE DELIMITED CSV()", {}),
        ("line delimited CSV(fields := ',')", {"fields": ","}),
        ("'\\n' DELIMITED CSV", {}),
        ("", {}),
    ],
)
def test_csv_as_it_is_written_in_the_wild(tail: str, options: dict[str, str], tmp_path: Path) -> None:
    (stream,) = script(
        f"create table R(A int, B varchar(10), C decimal(12,2)) from file 'r.csv' {tail}", tmp_path
    ).streams
    assert (stream.name, stream.is_table, stream.adaptor, stream.options) == ("r", True, "csv", options)
    assert stream.delimiter == b"\n"
    assert stream.columns == (
        Column("a", "int64", nullable=True),
        Column("b", "string", nullable=True),
        Column("c", "int64", nullable=True, scale=2),
    )


@pytest.mark.parametrize("adaptor", ["csv", "csv ()", "csv (header := 'yes')"])
def test_a_declaration_needs_no_semicolon(adaptor: str, tmp_path: Path) -> None:
    """Before the word of another statement, which is not lost."""
    source = f"(a INT) FROM FILE 'x' LINE DELIMITED {adaptor}"
    text = f"CREATE STREAM r{source}\nCREATE TABLE s{source}\nSELECT a FROM r; "
    text += f"CREATE STREAM t{source} WITH w AS (SELECT 1) SELECT 2;"
    (tmp_path / "other.sql").write_text(f"CREATE STREAM u{source}\nINCLUDE 'third.sql'")
    (tmp_path / "third.sql").write_text("SELECT 3")
    read = script(f"{text} INCLUDE 'other.sql'", tmp_path)
    assert [stream.name for stream in read.streams] == ["r", "s", "t", "u"]
    assert [view.sql for view in read.selects] == ["SELECT 3", "SELECT a FROM r", "WITH w AS (SELECT 1) SELECT 2"]


def test_types() -> None:
    names = ("BIGINT", "FLOAT", "DOUBLE", "REAL", "DECIMAL", "DATE", "STRING", "CHAR(3)", "TIMESTAMP", "BOOLEAN")
    columns = ", ".join(f"c{number} {name}" for number, name in enumerate(names))
    (stream,) = parse(f"CREATE STREAM x({columns}) FROM FILE 'x'", name="x.sql", base_dir=Path()).streams
    kinds = ["int64", "float64", "float64", "float64", "float64", "date", "string", "string", "timestamp", "bool"]
    assert [column.type for column in stream.columns] == kinds


def test_a_socket(tmp_path: Path) -> None:
    (stream,) = script("CREATE STREAM x(a INT) FROM SOCKET '127.0.0.1' 1234 LINE DELIMITED CSV", tmp_path).streams
    assert stream.source == DeclaredSocket("127.0.0.1", 1234)


def test_names_of_views(tmp_path: Path) -> None:
    """One SELECT is called as its file, several are numbered, CREATE VIEW says its own name."""
    one = script("-- it's a comment; /*\nSELECT ';' FROM bids", tmp_path).selects
    assert [(view.name, view.sql, view.line) for view in one] == [("some", "SELECT ';' FROM bids", 2)]
    many = script("SELECT 1; CREATE VIEW Mine AS SELECT 2;; /* ; */ WITH x AS (SELECT 3) SELECT 4;", tmp_path).selects
    assert [(view.name, view.sql) for view in many] == [
        ("some_1", "SELECT 1"),
        ("mine", "SELECT 2"),
        ("some_2", "WITH x AS (SELECT 3) SELECT 4"),
    ]


def test_a_view_says_its_lane(tmp_path: Path) -> None:
    text = (
        "CREATE VIEW a TBLPROPERTIES ('lane' = 'express') AS SELECT 1; CREATE VIEW b AS SELECT 2;"
        "CREATE OR REPLACE VIEW c tblproperties('LANE'='Spark') AS SELECT 3; SELECT 4"
    )
    assert [(view.name, view.lane) for view in script(text, tmp_path).selects] == [
        ("a", "express"),
        ("b", "spark"),
        ("c", "spark"),
        ("some", "spark"),
    ]


def test_include_looks_beside_the_file_and_above_it(tmp_path: Path) -> None:
    (tmp_path / "schemas.sql").write_text(BIDS)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    path = tmp_path / "deep" / "er" / "q.sql"
    path.write_text("INCLUDE 'schemas.sql'; SELECT COUNT(*) FROM bids")
    found = read_script(path)
    assert ([stream.name for stream in found.streams], [view.name for view in found.selects]) == (["bids"], ["q"])


def test_a_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    """Some editors begin every file in UTF-8 with it."""
    (tmp_path / "schemas.sql").write_bytes(b"\xef\xbb\xbf" + BIDS.encode())
    path = tmp_path / "q.sql"
    path.write_bytes(b"\xef\xbb\xbfINCLUDE 'schemas.sql'; SELECT COUNT(*) FROM bids")
    found = read_script(path)
    assert ([stream.name for stream in found.streams], [view.name for view in found.selects]) == (["bids"], ["q"])
    path.write_bytes(b"\xef\xbb\xbfDROP x")
    with pytest.raises(SqlError, match=r"q\.sql:1:1: expected SELECT"):
        read_script(path)


def test_includes_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("INCLUDE 'b.sql';")
    (tmp_path / "b.sql").write_text("\n  INCLUDE 'a.sql';")
    with pytest.raises(SqlError, match=r"b\.sql:2:11: expected files that do not include each other, was a\.sql -> b"):
        read_script(tmp_path / "a.sql")


def test_data_files_are_looked_for_in_the_data_folder_first(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    text = "CREATE STREAM x(a INT) FROM FILE 'sub/x.csv'"
    (stream,) = parse(text, name="s.sql", base_dir=tmp_path, data_dir=data).streams
    assert isinstance(stream.source, DeclaredFile)
    with pytest.raises(MissingFileError) as error:
        _ = stream.source.path
    for place in (data / "sub/x.csv", data / "x.csv", tmp_path / "sub/x.csv", Path.cwd() / "sub/x.csv"):
        assert str(place) in str(error.value)
    (data / "x.csv").touch()
    assert stream.source.path == data / "x.csv"


def test_a_missing_include_names_the_places(tmp_path: Path) -> None:
    with pytest.raises(
        MissingFileError, match=r"some\.sql:1:9: expected a file 'no\.sql', found none; tried .*no\.sql"
    ):
        script("INCLUDE 'no.sql'", tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("selec a from b", "some.sql:1:1: expected SELECT, CREATE STREAM, CREATE TABLE, CREATE VIEW or INCLUDE, was"),
        ("CREATE STREAM x(a INT) FROM FILE 'x' FIXEDWIDTH 8 csv", "some.sql:1:38: expected LINE DELIMITED, was"),
        ("\nCREATE STREAM x(a WHAT) FROM FILE 'x'", "some.sql:2:19: expected a type (BIGINT, "),
        ("CREATE STREAM x(a INT, A INT) FROM FILE 'x'", "some.sql:1:24: expected column names once each, was 'A'"),
        ("CREATE STREAM x(a INT FROM FILE 'x'", "some.sql:1:23: expected ',' or ')', was 'FROM'"),
        ("CREATE STREAM x(a INT) FROM 'x'", "some.sql:1:29: expected FILE or SOCKET, was 'x'"),
        ("CREATE STREAM x(a INT) FROM SOCKET 'h' 65536", "some.sql:1:40: expected a port from 1 to 65535, was 65536"),
        ("CREATE STREAM x(a INT) FROM SOCKET 'h' 0", "some.sql:1:40: expected a port from 1 to 65535, was 0"),
        ("CREATE STREAM x(a DECIMAL(39)) FROM FILE 'x'", "some.sql:1:19: expected at most 38 digits, no more of them"),
        ("CREATE STREAM x(a DECIMAL(4,6)) FROM FILE 'x'", "some.sql:1:19: expected at most 38 digits, no more of them"),
        ("CREATE STREAM x(a TIMESTAMP(9)) FROM FILE 'x'", "some.sql:1:19: expected at most 6 digits of a second"),
        (r"CREATE STREAM x(a INT) FROM FILE 'x' '\q' DELIMITED csv", r"some.sql:1:38: expected \t, \n, \r, \0, \\ or"),
        ("CREATE STREAM x(a INT) FROM FILE 'x' LINE CSV", "some.sql:1:43: expected DELIMITED, was 'CSV'"),
        ("CREATE STREAM x(a INT) FROM FILE 'x' csv (a 'b')", "some.sql:1:45: expected ':=', was 'b'"),
        ("CREATE STREAM x(a INT) FROM FILE 'x'; CREATE STREAM X(a INT) FROM FILE 'x'",
         "some.sql:1:39: expected one declaration of 'x', was a second; the first is at some.sql:1:1"),
        ("CREATE INDEX x", "some.sql:1:8: expected STREAM or TABLE or VIEW, was 'INDEX'"),
        ("SELECT 'a", "some.sql:1:8: expected a closing ', was the end of the file"),
        ("SELECT 1 /* a", "some.sql:1:10: expected a closing */, was the end of the file"),
        ("CREATE VIEW v TBLPROPERTIES ('lane' = 'fast') AS SELECT 1", "some.sql:1:39: expected one of the lanes spark"),
        ("CREATE VIEW v TBLPROPERTIES ('line' = 'x') AS SELECT 1", "some.sql:1:30: expected 'lane', the one property"),
        ("CREATE VIEW v TBLPROPERTIES ('lane') AS SELECT 1", "some.sql:1:36: expected '=', was ')'"),
        ("CREATE VIEW v AS SELECT 1; CREATE VIEW V AS SELECT 2", "some.sql:1:45: expected names of views once each"),
    ],
)  # fmt: skip
def test_errors_say_where_and_what(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(SqlError) as error:
        script(text, tmp_path)
    assert str(error.value).startswith(message)


def test_the_trace_of_the_finance_queries_follows_its_seed() -> None:
    assert (QUERIES_DIR / "trace-5000.csv").read_text() == "".join(f"{line}\n" for line in trace(7, 5000))


@pytest.mark.parametrize(
    ("written", "delimiter"),
    [(r"\r\n", b"\r\n"), (r"\x01\t", b"\x01\t"), (r"|\\n", b"|\\n"), (r"\0;", b"\0;"), ("é", b"\xc3\xa9")],
)
def test_what_ends_a_tuple_is_written_as_in_options(written: str, delimiter: bytes, tmp_path: Path) -> None:
    (stream,) = script(f"CREATE STREAM x(a INT) FROM FILE 'x' '{written}' DELIMITED csv", tmp_path).streams
    assert stream.delimiter == delimiter


def test_a_directory_is_no_file_and_the_message_says_so(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (stream,) = script("CREATE STREAM x(a INT) FROM FILE 'x'", tmp_path).streams
    assert isinstance(stream.source, DeclaredFile)
    with pytest.raises(MissingFileError, match=r"tried .*x, which is a directory"):
        _ = stream.source.path
