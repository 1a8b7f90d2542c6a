"""``deltabook query``: run scripts; list, show, add, drop and explain views; ask questions."""

from __future__ import annotations

import tempfile
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

import click
import msgspec

from deltabook.cli._options import ConfigFileError, FloatRange, OptionError
from deltabook.cli._ports import LazyResults, ResultsPort, results_options
from deltabook.cli._spark_options import spark_options
from deltabook.cli._views import TABLE_ROWS, ask_question, print_rows, running_views, show_view, watch_views
from deltabook.wire.catalogue import TIMEOUT_SECONDS, AddViews, Changed, NewStream, NewView
from queries import QUERIES_DIR
from runtime.compiler import (
    MARKET_RELATIONS,
    Lane,
    NamedSelect,
    StreamDeclaration,
    StreamSelect,
    explain,
    parse_script,
    read_script,
)
from runtime.compiler.declarations import DeclaredFile
from runtime.plan import Program, View, stream_of, stream_views
from runtime.spark.config import SparkConfig
from runtime.views.code import kernel_code

__all__ = ["command"]

_JSON: Final = msgspec.json.Encoder(decimal_format="number")
_NO_FILE: Final = "query"
"""Name that stands for a file's name in messages about the SQL of ``--sql``, which is in no file."""
_WITHOUT_EFFECT: Final = {
    "duplicate_orders": "they add an order whose id is live",
    "bad_volumes": "their volume is not from 1 to 2^62",
}
"""Counter of an `orderbook` → why the messages that it counts have no effect."""

_files = click.argument(
    "files",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE.sql...",
)
_mode = click.option(
    "--mode",
    type=click.Choice(["sql", "dbtoaster"]),
    default="sql",
    help="SQL dialect; in dbtoaster SUM of no rows is 0 and SUBSTRING counts from 0.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")
_data_dir = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Directory of the files that the scripts read.",
)
_timeout = click.option(
    "--timeout",
    type=FloatRange(0, 3600),
    default=TIMEOUT_SECONDS,
    help="Seconds to wait until the change is published.",
)
_LANES = click.Choice(["spark", "express"])


@click.group()
def command() -> None:
    """Run SQL scripts over files; list, show, add, drop and explain the views of a running runtime."""


def _read(
    files: Sequence[Path], data_dir: Path | None
) -> tuple[list[NamedSelect], dict[str, StreamDeclaration], list[StreamSelect]]:
    """Return the SELECTs, declarations and derived streams of all files; equal declarations of a stream are merged."""
    selects: list[NamedSelect] = []
    streams: dict[str, StreamDeclaration] = {}
    derived: dict[str, StreamSelect] = {}
    for path in files:
        script = read_script(path, data_dir=data_dir)
        selects += script.selects
        for stream in script.streams:
            known = streams.setdefault(stream.name, stream)
            if _identity(known) != _identity(stream):
                raise ConfigFileError(f"expected one declaration of {stream.name}, was another in {path}")
        for each in script.derived:
            other = derived.setdefault(each.name, each)
            if (other.select.sql, other.clauses) != (each.select.sql, each.clauses):
                raise ConfigFileError(f"expected one declaration of {each.name}, was another in {path}")
    return selects, streams, list(derived.values())


def _check_selects(selects: Sequence[NamedSelect], files: Sequence[Path]) -> None:
    if not selects:
        raise ConfigFileError(f"expected at least one SELECT, was none in {', '.join(map(str, files))}")


def _identity(stream: StreamDeclaration) -> tuple[object, ...]:
    """Return the parts in which two declarations of a stream must agree: all except the directory of the file."""
    source = stream.source.name if isinstance(stream.source, DeclaredFile) else stream.source
    return stream.columns, source, stream.delimiter, stream.adaptor, stream.options, stream.is_table


@command.command("run")
@_files
@_data_dir
@_mode
@_json
@spark_options()
@click.option(
    "--epoch-messages",
    type=click.IntRange(0),
    default=0,
    help="Close an epoch after this many messages; 0 closes it by time alone.",
)
@click.option("--every-epoch", is_flag=True, help="Publish and print every epoch as a version.")
@click.option("--threads", "workers", type=click.IntRange(1, 64), default=2, help="Threads that parse messages.")
@click.option("--lane", type=_LANES, help="Lane of the views.  [default: as each view declares, else Spark]")
@click.option(
    "--spark/--no-spark", "runs_spark", default=None, help="Start Spark or not.  [default: start it if a view needs it]"
)
@click.option(
    "--dir",
    "directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="Run directory to keep.  [default: a temporary one]",
)
def run(
    files: tuple[Path, ...],
    data_dir: Path | None,
    mode: Literal["sql", "dbtoaster"],
    as_json: bool,
    spark: SparkConfig,
    epoch_messages: int,
    every_epoch: bool,
    workers: int,
    lane: Lane | None,
    runs_spark: bool | None,
    directory: Path | None,
) -> None:
    """Read the streams of SQL scripts to their end, and print views.

    The rows of all derived streams and SELECTs of the scripts are printed. Where Spark runs, it maintains every view,
    and its results are printed. The express lane maintains its own views too, and both results are compared at every
    version.
    """
    from runtime.engine.ingest import IngestConfig
    from runtime.service.scripts.run import ScriptRun

    selects, streams, derived = _read(files, data_dir)
    if lane is not None:
        selects = [replace(select, lane=lane) for select in selects]
    if not derived:
        _check_selects(selects, files)
    if not streams:
        raise ConfigFileError(
            f"expected at least one CREATE STREAM, was none in {', '.join(map(str, files))}; "
            "`deltabook runtime` maintains views over the live market"
        )

    def report_starting() -> None:
        click.echo(f"starting Spark on {spark.master}, which takes about 8 s", err=True)

    with _run_directory(directory) as place:
        script_run = ScriptRun(
            place,
            selects,
            list(streams.values()),
            mode=mode,
            ingest=IngestConfig(workers=workers, epoch_messages=epoch_messages),
            spark=msgspec.structs.replace(spark, max_epochs_per_batch=1 if every_epoch else 1_000_000),
            derived=derived,
            runs_spark=runs_spark,
        )
        for result in script_run.results(every_epoch=every_epoch, on_starting=report_starting):
            print_rows(result.query, result.columns, result.rows, result.epoch, result.view_class, as_json=as_json)
        counts = script_run.counts
        unknown = counts.counters.get("unknown_orders")
        click.echo(
            f"{counts.messages} messages in {counts.epochs} epoch{'s' * (counts.epochs != 1)}, "
            f"{counts.dead_letters - sum(counts.late.values())} malformed"
            + (f", {unknown} refer to orders that are not live" if unknown is not None else ""),
            err=True,
        )
        for counter, reason in _WITHOUT_EFFECT.items():
            if count := counts.counters.get(counter):
                click.echo(f"{count} messages had no effect: {reason}", err=True)
        if off_scale := counts.counters.get("off_scale"):
            click.echo(f"{off_scale} prices or volumes were truncated to whole ticks or lots", err=True)
        if counts.nulled:
            click.echo(f"{counts.nulled} malformed values became NULL", err=True)
        for name, late in counts.late.items():
            click.echo(f"{late} rows were too late for {name}", err=True)
        for name, origin in counts.origins.items():
            if origin.skipped:
                click.echo(f"{origin.skipped} malformed tuples of {name} were skipped", err=True)
        if counts.dead_letters > sum(origin.skipped for origin in counts.origins.values()):
            click.echo(f"malformed tuples are in {place / 'dead-letters.jsonl'}" if directory else
                       "use --dir to keep the malformed tuples", err=True)  # fmt: skip


@contextmanager
def _run_directory(directory: Path | None) -> Iterator[Path]:
    if directory is None:
        with tempfile.TemporaryDirectory(prefix="deltabook-") as place:
            yield Path(place)
    elif directory.exists() and any(directory.iterdir()):
        raise ConfigFileError(f"expected an empty or new run directory, was {directory} with files in it")
    else:
        yield directory


@command.command("add")
@click.argument("file", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--sql", help="SELECT to add, instead of a file.")
@click.option("--name", help="Name of the view.  [default: the name in CREATE VIEW, else the file's name]")
@click.option(
    "--lane",
    type=_LANES,
    help="Lane of the views.  [default: as each view declares, else Spark where it runs]",
)
@click.option(
    "--reader",
    "readers",
    multiple=True,
    metavar="NAME",
    help="Allow the view to read only the relations of this reader; repeatable.",
)
@results_options()
@_timeout
@_json
def add(
    file: Path | None,
    sql: str | None,
    name: str | None,
    lane: Lane | None,
    readers: tuple[str, ...],
    results: LazyResults,
    timeout: float,
    as_json: bool,
) -> None:
    """Add views and derived streams to a running runtime. The command waits until they are published."""
    selects, derived = _new_selects(file, sql, name)
    views = [
        NewView(select.name, select.sql, select.file, select.line, select.column, _new_lane(select, lane), readers)
        for select in selects
    ]
    streams = [_new_stream(each) for each in derived]
    body = msgspec.json.encode(AddViews(tuple(views), timeout, tuple(streams)))
    _print_change("added", results().ask("POST", "/v1/views", body, timeout), timeout, as_json)


def _new_lane(select: NamedSelect, lane: Lane | None) -> Literal["spark", "express", ""]:
    """Return the lane that the command or the view names; empty if neither does."""
    if lane is None and select.any_lane:
        return ""
    return "express" if (lane or select.lane) == "express" else "spark"


def _new_stream(stream: StreamSelect) -> NewStream:
    select, clauses = stream.select, stream.clauses
    return NewStream(
        name=select.name,
        sql=select.sql,
        file=select.file,
        line=select.line,
        column=select.column,
        retain_rows=clauses.retain_rows,
        retain_ns=clauses.retain_ns,
        lateness_ns=clauses.lateness_ns,
    )


def _new_selects(
    file: Path | None, sql: str | None, name: str | None
) -> tuple[list[NamedSelect], tuple[StreamSelect, ...]]:
    if (file is None) == (sql is None):
        raise OptionError("expected either a FILE of views or --sql, was " + ("none" if file is None else "both"))
    if sql is None:
        assert file is not None
        script = read_script(file)
    else:
        script = parse_script(sql, name=_NO_FILE, base_dir=Path.cwd())
    where = file or "--sql"
    if script.streams:
        raise ConfigFileError(
            f"expected views over the runtime's relations in {where}, was CREATE STREAM with columns; see `query run`"
        )
    selects = list(script.selects)
    if not (selects or script.derived):
        raise ConfigFileError(f"expected at least one SELECT in {where}, was none")
    if name is not None:
        if len(selects) != 1:
            raise OptionError(f"expected one SELECT in {where} for --name, was {len(selects)}")
        return [replace(selects[0], name=name.lower())], script.derived
    if unnamed := [select for select in selects if select.name.startswith(_NO_FILE)]:
        raise OptionError(f"expected --name for the view of --sql, was none for {unnamed[0].sql!r}")
    return selects, script.derived


@command.command("drop")
@click.argument("name", metavar="VIEW")
@results_options()
@_timeout
@_json
def drop(name: str, results: LazyResults, timeout: float, as_json: bool) -> None:
    """Drop a view or stream that no other view or stream reads. The command waits until the change is published."""
    path = f"/v1/views/{urllib.parse.quote(name.lower(), safe='')}?timeout_s={timeout}"
    _print_change("dropped", results().ask("DELETE", path, timeout=timeout), timeout, as_json)


def _print_change(done: str, answer: bytes, timeout: float, as_json: bool) -> None:
    change = msgspec.json.decode(answer, type=Changed)
    for view in change.views:
        if as_json:
            line = {"query": view.name, done: change.epoch, "class": view.view_class, "lane": view.lane,
                    "version": change.version}  # fmt: skip
            click.echo(_JSON.encode(line).decode())
        else:
            click.echo(f"{view.name}: {view.view_class}, lane {view.lane}, {done} at epoch {change.epoch}")
    if change.version < change.epoch:
        raise ConfigFileError(
            f"expected epoch {change.epoch} to be published within {timeout:g} s, newest is {change.version}; the "
            "change was accepted and will be published"
        )


@command.command("explain")
@click.argument("names", nargs=-1, required=True, metavar="FILE.sql|VIEW...")
@_data_dir
@_mode
@click.option("--code", "with_code", is_flag=True, help="Print the generated kernels too.")
@results_options(optional=True)
@_json
def explain_(
    names: tuple[str, ...],
    data_dir: Path | None,
    mode: Literal["sql", "dbtoaster"],
    with_code: bool,
    results: LazyResults | None,
    as_json: bool,
) -> None:
    """Print how views of files or of a runtime are maintained.

    For a SELECT, print its class, the reason for the class, and its state. For a derived stream, print its inputs, its
    operators and their state.
    """
    from runtime.engine.streams import explain_stream

    if results is not None:
        _explain_running(names, results(), as_json, "?code=true" if with_code else "")
        return
    for program, view in _compiled([Path(name) for name in names], data_dir, mode):
        text = explain_stream(stream_of(program, view.name)) if view.lane == "stream" else explain(program, view.name)
        if with_code and view.lane != "stream":
            text += "\n" + kernel_code(program, view.name)
        if as_json:
            line = {"query": view.name, "class": view.view_class, "lane": view.lane, "reason": view.reason,
                    "columns": [c.name for c in view.columns], "reads": view.reads, "explain": text}  # fmt: skip
            click.echo(_JSON.encode(line).decode())
        else:
            click.echo(text)


def _compiled(
    files: Sequence[Path], data_dir: Path | None, mode: Literal["sql", "dbtoaster"]
) -> list[tuple[Program, View]]:
    """Return the derived streams, as views, and the views of all files, each with the program of its file.

    A file that declares relations reads these relations alone. Any other file reads the relations of the market, and
    the views of earlier files that declare no relations either.
    """
    from runtime.service.catalogue import begun_program
    from runtime.service.inputs.event_time import MARKET_INPUTS
    from runtime.service.scripts.origins import script_inputs

    scripts = []
    for file in files:
        if file.is_dir():
            raise ConfigFileError(f"expected a file, was the folder {str(file)!r}")
        if not file.is_file():
            raise ConfigFileError(
                f"expected a file, was {str(file)!r}, which does not exist; --results explains views by name"
            )
        scripts.append(read_script(file, data_dir=data_dir))
    if not any(script.derived for script in scripts):
        _check_selects([select for script in scripts for select in script.selects], files)
    views: list[tuple[Program, View]] = []
    standing: dict[str, View] = {}
    for script in (script for script in scripts if script.selects or script.derived):
        names = {select.name for select in script.selects}
        before = [] if script.relations else [view for name, view in standing.items() if name not in names]
        program = begun_program(
            script.selects,
            script.relations or MARKET_RELATIONS,
            script.derived,
            script_inputs(script.streams) if script.streams else MARKET_INPUTS,
            mode,
            standing=before,
        )
        views += [(program, view) for view in (*stream_views(program).views, *program.views)]
        standing |= {} if script.relations else {view.name: view for view in program.views}
    return views


def _explain_running(names: Sequence[str], results: ResultsPort, as_json: bool, query: str) -> None:
    described = {view["name"]: view for view in running_views(results)}
    for name in names:
        text = (
            results.ask("GET", f"/v1/views/{urllib.parse.quote(name.lower(), safe='')}/explain{query}")
            .decode()
            .rstrip("\n")
        )
        if as_json:
            view = described[name.lower()]
            line = {"query": view["name"], "class": view["class"], "lane": view["lane"], "reason": view["reason"],
                    "columns": [c["name"] for c in view["columns"]], "reads": view.get("reads", []),
                    "explain": text + "\n"}  # fmt: skip
            click.echo(_JSON.encode(line).decode())
        else:
            click.echo(text + "\n")


@command.command("list", short_help="List the views of a runtime, or the files of the shipped queries.")
@results_options(optional=True)
@_json
def list_(results: LazyResults | None, as_json: bool) -> None:
    """List the views of a runtime; without --results, the files of the shipped queries."""
    if results is None:
        for path in sorted(QUERIES_DIR.glob("*.sql")):
            click.echo(msgspec.json.encode({"query": path.stem, "file": str(path)}).decode() if as_json else str(path))
        return
    for view in running_views(results()):
        if as_json:
            click.echo(msgspec.json.encode(view).decode())
        else:
            names = ", ".join(column["name"] for column in view["columns"])
            rows = f"{view['rows']} row{'s' * (view['rows'] != 1)}"
            state = f"failed: {view['failed']}" if view["failed"] else f"{rows} at epoch {view['epoch']}"
            reads = f", reads {', '.join(view['reads'])}" if view.get("reads") else ""
            lines = [f"{view['name']}({names}): {view['class']}, lane {view['lane']}{reads}, {state}"]
            click.echo("; ".join([*lines, *_record_words(view.get("record"))]))


def _record_words(record: dict[str, Any] | None) -> list[str]:
    """Describe how far behind Spark's result of an express view is, and whether it differs from the express lane's."""
    if record is None:
        return []
    if record["failed"]:
        return [f"on Spark failed: {record['failed']}"]
    at = f"on Spark epoch {record['epoch']}, {record['behind_epochs']} behind"
    compared = {
        "none": "not compared yet",
        "equal": f"equal at epoch {record['compared_epoch']}",
        "differs": f"DIFFERENT since epoch {record['differs_since']}",
    }
    return [f"{at}, {compared[record['comparison']]}"]


@command.command("show")
@click.argument("name", metavar="VIEW")
@results_options()
@_json
@click.option(
    "--rows", type=click.IntRange(0), help="Maximum number of rows; 0 prints all.  [default: 1000, with --json all]"
)
def show(name: str, results: LazyResults, as_json: bool, rows: int | None) -> None:
    """Print the rows of a view of a runtime at its newest version."""
    most = rows if rows is not None else 0 if as_json else TABLE_ROWS
    show_view(results(), name, as_json, most)


@command.command("ask")
@click.argument("sql", metavar="SELECT")
@results_options()
@click.option("--epoch", type=click.IntRange(0), help="Epoch to read.  [default: the newest published one]")
@_json
@click.option("--arrow", "as_arrow", is_flag=True, help="Write an Arrow IPC stream to standard output.")
@click.option(
    "--rows", type=click.IntRange(1), default=TABLE_ROWS, show_default=True, help="Maximum number of rows of the table."
)
def ask(sql: str, results: LazyResults, epoch: int | None, as_json: bool, as_arrow: bool, rows: int) -> None:
    """Run a SELECT once over relations and views of a runtime.

    All of them are read as of one epoch. The dialect is DuckDB's; AS OF EPOCH n at the end of the SELECT is the same as
    --epoch n.
    """
    if as_json and as_arrow:
        raise OptionError("expected either --json or --arrow, was both")
    ask_question(results(), sql, epoch, "arrow" if as_arrow else "json" if as_json else "table", rows)


@command.command("watch")
@click.argument("names", nargs=-1, required=True, metavar="VIEW...")
@results_options()
@_json
@click.option("--versions", type=click.IntRange(0), default=0, help="Stop after this many versions; 0 never stops.")
def watch(names: tuple[str, ...], results: LazyResults, as_json: bool, versions: int) -> None:
    """Follow views of a runtime. On a terminal the current rows are shown, elsewhere a line for each change."""
    watch_views(results(), names, as_json, versions)
