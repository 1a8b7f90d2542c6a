"""docs/market.md says what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import msgspec

from deltabook.facts import ROWS
from exchange_server.agents import PRESETS, AgentSettings
from exchange_server.replay import SCALES, RecordingFormat

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "market.md").read_text(encoding="utf-8")


def test_settings_that_it_shows_are_taken() -> None:
    (shown,) = re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)
    msgspec.json.decode(shown.encode(), type=AgentSettings).check()


def test_it_has_every_format_with_its_scale_and_every_style() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| .* \| ([^|]*) \| [^|]* \|$", TEXT, re.MULTILINE))
    assert rows.keys() == set(get_args(RecordingFormat))
    for form, (tick, lot) in SCALES.items():
        assert rows[form] == f"{tick}, {'10⁻⁸' if lot == '0.00000001' else lot}"
    assert all(f"`{name}`" in TEXT for name in PRESETS)


def test_its_table_and_picture_are_those_of_the_benchmark() -> None:
    table = TEXT[TEXT.index("| | BTC/USD") :]
    assert [line.split(" | ")[0][2:] for line in table.splitlines()[2 : 2 + len(ROWS)]] == list(ROWS)
    for picture in re.findall(r"!\[[^]]+\]\(([^)]+)\)", TEXT):
        assert (ROOT / "docs" / picture).stat().st_size < 200_000
