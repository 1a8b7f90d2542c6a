"""Every format's input is read alike by the formatter and by the reader that it is compared with."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bench.ingest.feeding import cut, feed
from bench.ingest.material import material_of, wide_material
from bench.ingest.plan import BUFFERS, FORMATS, WORKERS, plan_of
from bench.ingest.rates import measure_itchfeed, measure_projection, measure_rates, measure_tiled

PLAN = msgspec.structs.replace(
    plan_of(True), input_bytes=400_000, block_bytes=150_000, wide_bytes=300_000, rounds=1, slice_messages=500
)


@pytest.mark.parametrize("name", FORMATS)
def test_the_figures_of_a_format_have_their_names(name: str, tmp_path: Path) -> None:
    material = material_of(name, PLAN, tmp_path)
    assert len(material.data) >= PLAN.input_bytes
    records = measure_rates(material, PLAN)  # raises if a row is missing on either side
    grid = {f"ingest.{name}.{buffer}.{workers}" for buffer in BUFFERS for workers in WORKERS}
    keys = {f"{key}.{what}" for key in grid for what in ("ratio", "bytes_per_s", "messages_per_s")}
    assert {r.what for r in records} == {*keys, f"ingest.{name}.scaling_2_1"}
    by_name = {r.what: r for r in records}
    for key in grid:
        assert by_name[f"{key}.ratio"].value == pytest.approx(by_name[f"{key}.bytes_per_s"].ratio)
    if name == "native":
        assert [r.what for r in measure_tiled(material, PLAN, records)] == [
            f"ingest.native.tiled.{workers}.ratio" for workers in WORKERS
        ]
    if name == "itch":
        names = [r.what for r in measure_itchfeed(material, PLAN, records)]
        assert names == ["ingest.itch.itchfeed.ratio", "ingest.itch.itchfeed.messages_per_s"]


@pytest.mark.parametrize("name", ["csv", "json"])
def test_the_projection_reads_two_of_twenty_columns(name: str) -> None:
    material = wide_material(name, PLAN)
    assert len(material.schema.names) == 20
    assert feed(material.schema, cut(material.data, 10_000, 1), 1).rows == material.rows
    assert measure_projection(material, PLAN).what == f"ingest.{name}.projection_gain"
