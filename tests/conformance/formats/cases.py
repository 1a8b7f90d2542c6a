"""One case of the fuzz harness, made from a kind and a seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec

from runtime.formats import Codec, CodecError, Condition, InputFormatter, Limits, Malformed, Pushdown, RawBuffer, Schema
from tests.conformance.formats.csv_files import CsvFiles
from tests.conformance.formats.cutting import STRATEGIES, cut_places, raw_buffers, shuffled
from tests.conformance.formats.drive import COUNTS, Outcome, drive
from tests.conformance.formats.encoding import encoded_buffers, encoded_stream, random_codec
from tests.conformance.formats.itch_files import ItchFiles
from tests.conformance.formats.json_files import JsonFiles
from tests.conformance.formats.mutation import Mutation, mutated
from tests.conformance.formats.native_files import NativeFiles
from tests.conformance.formats.sample import Files, Sample
from tests.conformance.formats.texts import BOUNDS
from tests.conformance.formats.verify import (
    check_chain,
    check_same,
    check_spans,
    check_valid,
)

__all__ = ["KINDS", "Report", "kind_of", "run_case"]

FILES: dict[str, Callable[[random.Random], Files]] = {
    "csv": lambda rng: CsvFiles(rng, quoting=False),
    "quoted": lambda rng: CsvFiles(rng, quoting=True),
    "json": JsonFiles,
    "native": NativeFiles,
    "itch": ItchFiles,
}
"""Makers of files by format."""
KINDS = (*(f"{name}{suffix}" for name in FILES for suffix in ("", ".broken")), "codec.broken")
"""Kinds of cases: valid files of each format, sometimes compressed; damaged files; damaged compressed files."""
_MANY = 1 << 30
_ALONE = 0.2
"""Share of the damaged files whose tuples are also formatted one by one."""


@dataclass
class Report:
    """Results of many cases."""

    counts: Counter[str] = field(default_factory=Counter)
    """Number of files, mutations, runs, cuts, buffers, bytes, tuples and repeats."""
    kinds: Counter[str] = field(default_factory=Counter)
    """Number of cases by kind."""
    failures: list[str] = field(default_factory=list)
    """Failures in words, each with the command that repeats the case."""

    def add(self, other: Report) -> None:
        """Add another report."""
        self.counts += other.counts
        self.kinds += other.kinds
        self.failures += other.failures

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        kinds = ", ".join(f"{count} {name}" for name, count in sorted(self.kinds.items()))
        return f"{self.kinds.total()} cases ({kinds}): {counts}; {len(self.failures)} failed"


def kind_of(seed: int) -> str:
    """Return the kind of a seed's case; the kinds take turns."""
    return KINDS[seed % len(KINDS)]


def run_case(kind: str, seed: int, report: Report) -> None:
    """Run one case; raise `AssertionError` for a failed check, and any error of the formatter."""
    rng = random.Random(f"{kind} {seed}")
    name, _, broken = kind.partition(".")
    report.kinds[kind] += 1
    files = FILES[name if name in FILES else rng.choice(list(FILES))](rng)
    run = _run_broken_codec if name == "codec" else _run_broken if broken else _run_valid
    run(rng, files, report)


def _run_valid(rng: random.Random, files: Files, report: Report) -> None:
    """Compare files of one schema, each an origin of its own, with what the library reads."""
    samples = {origin: files.sample(rng) for origin in range(1, rng.choice((1, 1, 1, 2, 5)) + 1)}
    report.counts["files"] += len(samples)
    report.counts["tuples"] += sum(len(sample.ends) for sample in samples.values())
    for _ in range(rng.randint(1, 3)):
        pushdown = _random_pushdown(rng, files.schema, samples[1])
        outcomes, _ = _run(rng, files.schema, pushdown, samples, report)
        for origin, sample in samples.items():
            check_valid(outcomes[origin], sample.expected(pushdown))


def _run_broken(rng: random.Random, files: Files, report: Report) -> None:
    """Check a damaged file: the cuts do not matter, no undamaged tuple is lost, and every tuple is counted."""
    sample = files.sample(rng, rng.choice((1, 3, 10, 40)))
    schema = _with_policies(rng, files.schema)
    pushdown = _random_pushdown(rng, schema, sample)
    for _ in range(rng.randint(1, 4)):
        mutation = mutated(rng, sample)
        data = mutation.data
        report.counts["files"] += 1
        report.counts["mutations"] += len(mutation.edits)
        formatter = InputFormatter(schema, pushdown, described=_MANY)
        reference = drive(formatter, raw_buffers(data, []), rng)[1]
        check_chain(reference, len(data))
        if reference.failure is None:
            _check_untouched(reference, mutation, pushdown, schema.limits.tuple_bytes)
            if sample.spread == "tuple" and rng.random() < _ALONE:
                _check_alone(reference, mutation, schema, pushdown)
        report.counts["tuples"] += reference.total("tuples")
        for _ in range(rng.randint(1, 3)):
            outcomes, _raws = _run(rng, schema, pushdown, {1: mutation}, report)
            check_same(outcomes[1], reference)


def _run(
    rng: random.Random,
    schema: Schema,
    pushdown: Pushdown,
    streams: dict[int, Sample] | dict[int, Mutation],
    report: Report,
) -> tuple[dict[int, Outcome], dict[int, list[RawBuffer]]]:
    """Cut the streams, mix them, format them with any number of workers; check what must hold for any stream."""
    slots = rng.choice((2, 2, 4, 8))
    max_slots = slots * rng.choice((1, 2, 8))
    highest = rng.choice((2**63 - 1, 2**63 - 1, 2 * max_slots * 64, 2 * max_slots * 64 + 17))
    formatter = InputFormatter(
        schema, pushdown, described=_MANY, slots=slots, max_slots=max_slots, highest_sequence=highest
    )
    codec = random_codec(rng) if rng.random() < 0.25 else None
    raws: dict[int, list[RawBuffer]] = {}
    for origin, stream in streams.items():
        breaks = (stream.sample if isinstance(stream, Mutation) else stream).breaks
        cut = [
            RawBuffer(origin, (raw.sequence_number - 1) % highest + 1, raw.data, raw.offset)
            for raw in _cut(rng, stream.data, breaks, origin, codec)
        ]
        raws[origin] = cut
        if codec is not None:
            formatter.open(origin, codec=codec)
    window = rng.choice((0, 2, 8, 64)) if highest > _MANY else rng.choice((0, 2, 8, 30))
    order = shuffled(rng, _interleaved(rng, list(raws.values())), window)
    workers = rng.choice((0, 0, 1, 2, 2, 4, 8))
    outcomes = drive(
        formatter,
        order,
        rng,
        workers=workers,
        most_bytes=rng.choice((1, 100, 4096, 1 << 20)),
        ahead=0 if highest > _MANY else highest // 2 - 64 - 2 * window,  # a number is one of this round or of the next
    )
    for origin, stream in streams.items():
        check_chain(outcomes[origin], len(stream.data))
        if len(raws[origin]) <= highest and codec is None:
            check_spans(outcomes[origin], raws[origin])
    report.counts["runs"] += 1
    report.counts["buffers"] += len(order)
    report.counts["cuts"] += len(order) - len(streams)
    report.counts["bytes"] += sum(len(raw.data) for raw in order)
    report.counts["repeats"] += sum(outcome.repeats for outcome in outcomes.values())
    return outcomes, raws


def _cut(rng: random.Random, data: bytes, breaks: Sequence[int], origin: int, codec: Codec | None) -> list[RawBuffer]:
    """Return the bytes as raw buffers, encoded or not."""
    strategy = rng.choice(STRATEGIES)
    if codec is not None and codec.is_sequential:
        data = encoded_stream(rng, codec, data)
        places = cut_places(rng, len(data), [], strategy)
        return [msgspec.structs.replace(raw, offset=-1) for raw in raw_buffers(data, places, origin)]
    raws = raw_buffers(data, cut_places(rng, len(data), breaks, strategy), origin)
    return raws if codec is None else encoded_buffers(codec, raws)


def _interleaved(rng: random.Random, streams: Sequence[list[RawBuffer]]) -> list[RawBuffer]:
    """Return all buffers, each stream in its order, as sources with random speeds deliver them."""
    keys = [
        (place / len(stream) + rng.random() * 0.1, n)
        for n, stream in enumerate(streams)
        for place in range(len(stream))
    ]
    heads = [iter(stream) for stream in streams]
    return [next(heads[n]) for _, n in sorted(keys)]


def _check_untouched(reference: Outcome, mutation: Mutation, pushdown: Pushdown, longest: int) -> None:
    """Check that every tuple that no edit can have reached gives its row, in order, unless it is too long."""
    expected = mutation.sample.expected(pushdown)
    spans = list(pairwise([mutation.sample.start, *mutation.sample.ends]))
    untouched = {number for number in mutation.untouched if spans[number][1] - spans[number][0] <= longest}
    left = iter(reference.rows)
    for row, number in zip(expected.rows, expected.numbers, strict=True):
        if number in untouched:
            assert any(row == other for other in left), f"expected the row of tuple {number}, {row}, was without it"


def _check_alone(reference: Outcome, mutation: Mutation, schema: Schema, pushdown: Pushdown) -> None:
    """Check that each tuple has the same result alone: other tuples affect neither its values nor its validity."""
    delimiter = getattr(schema.format, "tuple_delimiter", b"\n")
    data = mutation.data
    if getattr(schema.format, "header", False) or b"\xef\xbb\xbf" in data:
        return
    if any(data.endswith(delimiter[:length]) for length in range(1, len(delimiter))):
        return  # the end of a stream completes a delimiter that has begun
    rows: list[str] = []
    counts = Counter[str]()
    for text in data.split(delimiter):
        formatter = InputFormatter(schema, pushdown, described=_MANY)
        alone = drive(formatter, raw_buffers(text + delimiter, []), random.Random(0))[1]
        rows += alone.rows
        counts.update({name: alone.total(name) for name in COUNTS})
    assert rows == reference.rows, f"expected the rows of tuples alone, {rows}, was {reference.rows}"
    for name in COUNTS:
        assert counts[name] == reference.total(name), f"expected {counts[name]} {name}, was {reference.total(name)}"


def _run_broken_codec(rng: random.Random, files: Files, report: Report) -> None:
    """Check that damaged compressed bytes give rows or an error of the codec, and always end."""
    sample = files.sample(rng, rng.choice((1, 10, 100)))
    codec = random_codec(rng)
    report.counts["files"] += 1
    for _ in range(rng.randint(1, 4)):
        raws = _cut(rng, sample.data, sample.breaks, 1, codec)
        for place in rng.sample(range(len(raws)), rng.randint(1, min(3, len(raws)))):
            data = bytearray(raws[place].data)
            if data:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            if rng.random() < 0.3:
                del data[rng.randint(0, len(data)) :]
            raws[place] = msgspec.structs.replace(raws[place], data=bytes(data))
        report.counts["mutations"] += 1
        report.counts["runs"] += 1
        report.counts["buffers"] += len(raws)
        report.counts["cuts"] += len(raws) - 1
        report.counts["tuples"] += len(sample.ends)
        formatter = InputFormatter(files.schema)
        formatter.open(1, codec=codec)
        with suppress(CodecError):
            drive(formatter, shuffled(rng, raws, 8), rng, workers=rng.choice((0, 0, 2)))


def _with_policies(rng: random.Random, schema: Schema) -> Schema:
    letters = Malformed.DEAD_LETTER
    return msgspec.structs.replace(
        schema,
        malformed=rng.choice((letters, letters, letters, Malformed.SKIP, Malformed.FAIL)),
        malformed_nullable=rng.choice((Malformed.NULL, Malformed.NULL, letters, Malformed.SKIP)),
        limits=Limits(tuple_bytes=rng.choice((512, 65536, 65536)), described=_MANY),
    )


def _random_pushdown(rng: random.Random, schema: Schema, sample: Sample) -> Pushdown:
    columns: tuple[str, ...] | None = None
    conditions: list[Condition] = []
    if rng.random() < 0.3:
        columns = tuple(rng.sample(schema.names, rng.randint(0, min(len(schema.names), 4))))
    numbers = [field.name for field in schema.fields if field.type in BOUNDS]
    if numbers and sample.table.num_rows and rng.random() < 0.3:
        name = rng.choice(numbers)
        value = rng.choice(sample.table.column(name).to_pylist())
        conditions.append(Condition(name, rng.choice(("=", "<>", "<", "<=", ">", ">=")), 0 if value is None else value))
    return Pushdown(columns, tuple(conditions))
