"""The reports of a backtest and of a sweep, each a self-contained HTML file, and the HTML that a notebook shows.

Nothing is loaded from elsewhere, nothing depends on the clock, and equal results give equal bytes.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from algo_engine.loader import BUILT_IN
from deltabook.backtest.config import BacktestConfig, RunConfig
from deltabook.backtest.grid import Axis, Point, best_of
from deltabook.backtest.inspection import book_lines, dropped_line
from deltabook.backtest.presentation import Money, document, escaped, figure, section, table, tiles
from deltabook.backtest.run_data import RunData, StrategyFigures
from deltabook.backtest.statistics import STATISTICS_HEAD, statistics_html, statistics_note, statistics_rows
from deltabook.backtest.tables import chart_data

if TYPE_CHECKING:
    from deltabook.simulation.config import SimulationConfig

__all__ = ["command_of", "result_html", "sweep_html", "write_report", "write_sweep_report"]

_TRADES: Final = 500
"""Largest number of own trades that a report lists."""
_SECOND_NS: Final = 1_000_000_000
_OPTIONS: Final = {
    "latency": "latency",
    "seed": "seed",
    "fees": "fees",
    "step-us": "step_us",
    "warm-up": "warm_up_records",
    "limit": "limit_records",
    "broker": "first_broker_id",
    "max-crossed": "max_crossed_percent",
}
"""Field for each option of the command line whose value is written unchanged."""


def write_report(path: Path, result: RunData) -> Path:
    """Write the page of a result; return its path."""
    is_backtest = isinstance(result.config, BacktestConfig)
    files = ", ".join(dict.fromkeys(source.name for source in result.sources)) or (
        "given records" if is_backtest else "simulated market"
    )
    f = result.figures
    span = f"{moment(f.begin_ns)} to {moment(f.end_ns)} UTC"
    lead = f"{files} · {span} · {_played(result)}, {f.market_trades:,} trades in the market"
    body = "\n".join(
        [_failures(result), section("Result", tiles(result_tiles(result)), kind="wide"), _charts(result),
         _statistics(result), _strategies(result), _orders(result), _inputs(result),
         _trades(result), _again(result)]
    )  # fmt: skip
    page = document(_title(result), lead, body, chart_data(result), "report.js", has_charts=True)
    path.write_text(page, encoding="utf-8")
    return path


def _title(result: RunData) -> str:
    names = ", ".join(strategy.name for strategy in result.strategies)
    is_backtest = isinstance(result.config, BacktestConfig)
    return f"Backtest of {names}" if is_backtest else f"Simulation of {names or 'the market'}"


def _played(result: RunData) -> str:
    return f"{result.figures.records:,} {'records' if isinstance(result.config, BacktestConfig) else 'requests'}"


def moment(time_ns: int) -> str:
    """Return a time to the second, in UTC."""
    return datetime.fromtimestamp(time_ns // _SECOND_NS, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _share(part: int, whole: int) -> str:
    """Return a share as a percentage with one digit after the point, computed in integers."""
    return f"{1000 * part // whole / 10:.1f} %" if whole else "–"


def failure_words(result: RunData) -> list[str]:
    """Return the notices that a page shows above the figures: failures, and views that are slow."""
    words = [f"{s.name} was stopped: {s.failure}" for s in result.strategies if s.failure]
    words += [f"The run ended early: {result.failure}"] if result.failure else []
    return words + [f"The view {name} was updated batch by batch: {why}" for name, why in result.slow_views.items()]


def _failures(result: RunData) -> str:
    words = failure_words(result)
    return (
        section(
            "Notices",
            table(["what"], [[each] for each in words], name="Notices", kind="words"),
            kind="wide notice",
        )
        if words
        else ""
    )


def result_tiles(result: RunData) -> list[tuple[str, str, str]]:
    """Return the main figures: name, value and unit."""
    money, f = Money(result.instruments), result.figures
    orders = [strategy.orders for strategy in result.strategies]
    fills, makers = sum(o.fills for o in orders), sum(o.maker_fills for o in orders)
    filled, submitted = sum(o.filled_lots for o in orders), sum(o.submitted_lots for o in orders)
    return [
        ("Profit after fees", money.text(f.profit), money.unit),
        ("Fees", money.text(f.fees), money.unit),
        ("Largest drawdown", money.text(f.max_drawdown), money.unit),
        ("Own trades", f"{f.own_trades:,}", ""),
        ("As maker", _share(makers, fills), ""),
        ("Orders", f"{sum(o.submitted for o in orders):,}", ""),
        ("Share of ordered lots filled", _share(filled, submitted), ""),
        ("View changes", f"{f.view_changes:,}", ""),
    ]


def _statistics(result: RunData) -> str:
    shown = table(STATISTICS_HEAD, statistics_rows(result.statistics), name="Statistics", text={"of"})
    note = f'<p class="quiet">{escaped(statistics_note(result.statistics))}</p>'
    return section("Statistics", shown + note, kind="wide")


def _charts(result: RunData) -> str:
    money, f = Money(result.instruments), result.figures
    options = "".join(f"<option>{escaped(each.symbol)}</option>" for each in result.instruments)
    choice = f'<label class="quiet">Symbol <select id="symbol">{options}</select></label>'
    sizes = ", ".join(
        f"{symbol} {lots:,} lots" for s in result.strategies for symbol, lots in s.max_position_lots.items()
    )
    price = f"Best bid and ask over time with {f.own_trades} own fills."
    note = (
        '<p class="quiet">▲ full: bought · ▽ hollow: sold · drag over a chart to look closer, double-click for all</p>'
    )
    return "\n".join(
        [
            section("Price and own fills", figure("price", price) + note, kind="wide", beside=choice),
            section("Profit", figure("profit", f"Profit over time; at the end {money.text(f.profit)} {money.unit}.")),
            section("Drawdown", figure("drawdown", f"Drawdown over time; at most {money.text(f.max_drawdown)}.")),
            section("Position", figure("position", f"Position over time; at most {sizes or 'nothing'}."), kind="wide"),
        ]
    )  # fmt: skip


def _strategies(result: RunData) -> str:
    money = Money(result.instruments)
    names = ("profit", "realised", "unrealised", "fees", "max_drawdown")
    sums = [money.column([getattr(s, name) for s in result.strategies]) for name in names]
    rows = []
    for s, *texts in zip(result.strategies, *sums, strict=True):
        positions = ", ".join(f"{symbol} {lots:,}" for symbol, lots in s.position_lots.items())
        most = ", ".join(f"{symbol} {lots:,}" for symbol, lots in s.max_position_lots.items())
        rows.append([s.name, *texts, positions, most])
    unit = f" ({money.unit})" if money.unit else ""
    head = [
        "strategy",
        f"profit{unit}",
        "realised",
        "unrealised",
        "fees",
        "drawdown",
        "position, lots",
        "largest, lots",
    ]
    return section("Strategies", table(head, rows, name="Strategies"), kind="wide")


def _orders(result: RunData) -> str:
    money = Money(result.instruments)
    names = ["submitted", "refused", "rejected", "accepted", "filled", "partially_filled", "cancelled", "expired",
             "replaced", "fills", "most_open"]  # fmt: skip
    rows: list[list[object]] = [
        [name.replace("_", " "), *(f"{getattr(s.orders, name):,}" for s in result.strategies)] for name in names
    ]
    rows.append(["share of fills as maker", *(_share(s.orders.maker_fills, s.orders.fills) for s in result.strategies)])
    rows.append(["traded", *(money.text(s.orders.volume) for s in result.strategies)])
    rows.append(["edge over the mid price", *(money.text(s.orders.edge // 2) for s in result.strategies)])
    rows.append(["mean time in the market", *(_mean_rest(s) for s in result.strategies)])
    reasons = sorted({reason for s in result.strategies for reason in s.orders.reasons})
    rows += [[f"ended: {r}", *(f"{s.orders.reasons.get(r, 0):,}" for s in result.strategies)] for r in reasons]
    return section("Orders", table(["what", *(s.name for s in result.strategies)], rows, name="Orders"))


def _mean_rest(strategy: StrategyFigures) -> str:
    ended = strategy.orders.filled + strategy.orders.cancelled + strategy.orders.expired
    return f"{strategy.orders.rest_ns // ended / 1e6:,.3f} ms" if ended else "–"


def _inputs(result: RunData) -> str:
    config = result.config
    rows: list[tuple[str, object]] = [("latency", config.latency), ("seed", config.seed)]
    rows += [
        ("fees", config.fees or "none"),
        ("views change", f"every {config.step_us} µs" if config.step_us else "with every request"),
    ]
    if isinstance(config, BacktestConfig):
        rows += [("records before the start", f"{config.warm_up_records:,}")]
    else:
        rows += cast("SimulationConfig", config).report_rows()
    for s in result.strategies:
        rows += [(f"{s.name}.{name}", _parameter_text(value)) for name, value in s.parameters.items()]
    for source in result.sources:
        counts = f"{source.records:,} records, {source.errors:,} bad, {source.skipped:,} left out"
        rows.append((source.name, f"{source.format}, {', '.join(source.symbols)}: {counts}; sha256 {source.sha256}"))
        rows += [(f"{source.name}: book", line) for line in book_lines(source)]
    rows += [(f"left out: {name.replace('_', ' ')}", f"{count:,}") for name, count in result.figures.dropped.items()]
    rows += [(each.symbol, f"tick {each.tick_size}, lot {each.lot_size}") for each in result.instruments]
    return section("Parameters and data", table(["what", "value"], rows, name="Parameters and data", kind="words"))


def _parameter_text(value: object) -> str:
    """Return a parameter as readable text."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={each}" for key, each in value.items()) or "not given"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "not given"
    return str(value)


def _trades(result: RunData) -> str:
    scales = {each.symbol: each for each in result.instruments}
    rows = []
    for t in result.fills[:_TRADES]:
        scale = scales[t.symbol]
        time = f"{moment(t.time_ns)}.{t.time_ns % _SECOND_NS // 1_000_000:03}"
        quantity, price, fee = scale.quantity(t.volume_lots), scale.price(t.price_ticks), scale.notional(t.fee)
        side = "▲ bought" if t.side == "B" else "▽ sold"
        rows.append([time, t.strategy, t.symbol, side, *(f"{v:f}" for v in (quantity, price)), t.liquidity, f"{fee:f}",
                     t.client_id])  # fmt: skip
    count = len(result.fills)
    title = "Own trades" if count <= _TRADES else f"Own trades, the first {_TRADES:,} of {count:,}"
    head = ["time, UTC", "strategy", "symbol", "side", "quantity", "price", "as", "fee", "order"]
    shown = table(head, rows, name=title, text={"strategy", "symbol", "side", "as"})
    return section(title, shown if rows else '<p class="quiet">None.</p>', kind="wide long")


def _again(result: RunData) -> str:
    views = "".join(
        f"<details><summary>{escaped(name)}</summary><pre>{escaped(sql)}</pre></details>"
        for name, sql in result.views.items()
    )
    classes = [name for name in result.config.strategies if name not in BUILT_IN and not name.endswith(".py")]
    command = (
        f'<p class="quiet">{escaped(", ".join(classes))}: given as a class, which no command line can name.</p>'
        if classes
        else f"<pre>{escaped(_command_of(result.config))}</pre>"
    )
    return section("To run it again", command, kind="wide") + section("Views", views, kind="wide")


def _command_of(config: RunConfig) -> str:
    return command_of(config) if isinstance(config, BacktestConfig) else cast("SimulationConfig", config).command()


def command_of(config: BacktestConfig) -> str:
    """Return the command line of a configuration.

    For its own views the line has ``--views FOLDER``, since no file with their SQL is known. A configuration made in
    Python may have files that differ in an option that the command line has once for all files, or that it has for each
    file or for none; the values of such an option are joined by ``|``.
    """
    words = ["deltabook", "backtest", *config.strategies]
    for file in config.data:
        words += ["--data", f"{file.symbol}={file.path}"]
    for option, name in (("--day", "day"), ("--orderbook", "orderbook"), ("--trades", "trades")):
        values = [str(getattr(file, name) or "") for file in config.data]
        if all(values):
            words += [word for value in values for word in (option, value)]
        elif any(values):
            words += [option, "|".join(values)]
    for option, name, default in (("--format", "format", ""), ("--tick", "tick", ""), ("--queue", "queue", "back")):
        values = [getattr(file, name) for file in config.data]
        if any(value != default for value in values):
            words += [option, values[0] if len(set(values)) == 1 else "|".join(values)]
    for parameter in config.parameters:
        words += ["--param", parameter]
    words += ["--views", "FOLDER"] if config.views else []
    plain = BacktestConfig(())
    for option, name in _OPTIONS.items():
        if getattr(config, name) != getattr(plain, name):
            words += [f"--{option}", str(getattr(config, name))]
    return shlex.join(words)


_ROWS: Final = 1_000
"""Largest number of points that the report of a sweep lists."""
_FIGURES: Final = ("profit", "max_drawdown", "fees", "fills", "orders")


def write_sweep_report(path: Path, strategies: Sequence[str], axes: Sequence[Axis], points: Sequence[Point]) -> Path:
    """Write the page of a sweep; return its path.

    The cells of its heat map are links to the points' reports, if these are in the folder ``points`` beside the page.
    """
    keys = [key for key, _ in axes]
    best = best_of(points)
    failed = [point for point in points if point.error]
    names = ", ".join(strategies)
    lead = f"{len(points):,} points over {', '.join(keys)}; profits in ticks × lots"
    top = best[0]
    at = ", ".join(f"{key} {value}" for key, value in zip(keys, top.values, strict=True))
    cells: list[tuple[str, object, str]] = [
        ("Best profit", f"{top.profit:,}", ""),
        ("At", at, ""),
        ("Median profit", f"{best[len(best) // 2].profit:,}", ""),
        ("Points with a profit", f"{sum(point.profit > 0 for point in best):,} of {len(best):,}", ""),
        ("Failed", f"{len(failed):,}", ""),
    ]
    body = [section("Result", tiles(cells), kind="wide"), section("Heat map", _map(axes), kind="wide")]
    rows = [[*p.values, f"{p.profit:,}", f"{p.fees:,}", f"{p.max_drawdown:,}", f"{p.orders:,}", f"{p.fills:,}"]
            for p in best[:_ROWS]]  # fmt: skip
    body.append(
        section(
            "Points, the best first",
            table([*keys, "profit", "fees", "drawdown", "orders", "fills"], rows, name="Points"),
            kind="wide long",
        )
    )
    if failed:
        why = [[*point.values, point.error] for point in failed[:_ROWS]]
        body.append(
            section("Failed", table([*keys, "why"], why, name="Failed", kind="words reasons"), kind="wide long notice")
        )
    data: dict[str, Any] = {
        "axes": axes,
        "points": [msgspec.structs.asdict(point) for point in points],
        "reports": [p.number for p in points if (path.parent / "points" / f"{p.number:05}.html").is_file()],
    }
    page = document(f"Sweep of {names}", lead, "\n".join(body), data, "sweep.js", has_charts=False)
    path.write_text(page, encoding="utf-8")
    return path


def _map(axes: Sequence[Axis]) -> str:
    def choice(name: str, chosen: int) -> str:
        options = "".join(
            f'<option value="{place}"{" selected" if place == chosen else ""}>{escaped(key)}</option>'
            for place, (key, _) in enumerate(axes)
        )
        return f'<label class="quiet">{name} <select id="{name.lower()}">{options}</select></label>'

    last = min(1, len(axes) - 1)
    figures = "".join(f'<option value="{name}">{name.replace("_", " ")}</option>' for name in _FIGURES)
    chosen = f'<label class="quiet">Figure <select id="figure">{figures}</select></label>'
    choices = f'<div class="axes">{choice("Across", 0)}{choice("Down", last)}{chosen}</div>'
    heat = '<table class="heat" id="heat" aria-describedby="words"></table>'
    scroll = f'<div class="scroll" tabindex="0" role="region" aria-label="Heat map">{heat}</div>'
    return f'{choices}{scroll}<p class="quiet" id="words"></p>'


_POINTS: Final = 20
"""Largest number of points that a notebook shows of a sweep."""


def result_html(result: RunData) -> str:
    """Return the figures and statistics of a run as HTML for a notebook."""
    f = result.figures
    lead = f"{moment(f.begin_ns)} to {moment(f.end_ns)} UTC, {_played(result)}, {result.elapsed_s:.2f} s to run"
    rows = [[name, f"{value} {unit}".strip()] for name, value, unit in result_tiles(result)]
    recordings = [line for source in result.sources for line in book_lines(source)]
    about = "".join(f"<p>{escaped(line)}</p>" for line in (*recordings, dropped_line(f.dropped)))
    notices = "".join(f"<p><strong>{escaped(words)}</strong></p>" for words in failure_words(result))
    return (
        f"<div><p><strong>{escaped(_title(result))}</strong><br>{escaped(lead)}</p>{notices}"
        f"{table(['figure', 'value'], rows, name='Figures')}{statistics_html(result.statistics)}{about}</div>"
    )


def sweep_html(axes: Sequence[Axis], points: Sequence[Point]) -> str:
    """Return the best points of a sweep as an HTML table, and how many points failed."""
    keys = [key for key, _ in axes]
    best = best_of(points)
    rows = [
        [*p.values, f"{p.profit:,}", f"{p.fees:,}", f"{p.max_drawdown:,}", f"{p.orders:,}", f"{p.fills:,}"]
        for p in best[:_POINTS]
    ]
    failed = [point for point in points if point.error]
    why = f"; {len(failed):,} failed, the first with: {failed[0].error}" if failed else ""
    lead = f"The best {min(_POINTS, len(best)):,} of {len(points):,} points, money in ticks × lots{why}"
    head = [*keys, "profit", "fees", "drawdown", "orders", "fills"]
    return f"<div><p>{escaped(lead)}</p>{table(head, rows, name='Points')}</div>"
