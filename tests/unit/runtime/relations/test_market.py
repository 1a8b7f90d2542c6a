"""Letters of actions, however the strings lie in memory."""

from __future__ import annotations

import pyarrow as pa
import pytest

from runtime.relations.market import action_codes


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["B"],
        list("BSEXFDTH"),
        ["B", "", "S"],
        ["BS", "", "E"],
        ["é", "B"],
        ["", "é"],
        ["B", None, "S"],
        ["", *"BS", None] * 9,
        [None, None],
    ],
)
@pytest.mark.parametrize("type_", [pa.string(), pa.large_string()])
def test_a_letter_has_its_code_and_all_else_0(texts: list[str | None], type_: pa.DataType) -> None:
    whole = pa.array(["X", *texts, "Y"], type_)
    column = whole.slice(1, len(texts))
    expected = [ord(text) if text is not None and len(text) == 1 and text.isascii() else 0 for text in texts]
    assert action_codes(column).tolist() == expected
