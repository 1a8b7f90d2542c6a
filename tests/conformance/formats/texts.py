"""Texts of values of every type, which the library and the formatter must both read."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta

import numpy as np

from runtime.formats import Field

__all__ = ["ALPHABETS", "BOUNDS", "SCALARS", "random_scalar", "random_word"]

BOUNDS = {
    f"{sign}int{bits}": (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for bits in (8, 16, 32, 64)
    for sign in ("", "u")
}
"""Lowest and highest value of the integer types."""
SCALARS = (
    *BOUNDS, "float32", "float64", "bool", "char", "string", "string", "date", "decimal(9,2)", "decimal(38,10)",
    "numeric(9,2)", "timestamp(s)", "timestamp(ms)", "timestamp(us)", "timestamp(ns)",
)  # fmt: skip
"""Types to choose from; strings, which cause most errors, twice."""
ALPHABETS = ("abcxyz", "0123456789-.", "aé€😀Ω \u00a0", "ab'`\\{}[]:", " _ab ", "truefalsenull")
"""Letters of which words are made, none of them a delimiter or a quote."""
_FRACTIONS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - texts without a zone


def random_word(rng: random.Random, longest: int = 8) -> str:
    """Return a word, possibly empty."""
    return "".join(rng.choices(rng.choice(ALPHABETS), k=rng.randint(0, longest)))


def random_scalar(rng: random.Random, field: Field) -> str:
    """Return the text of a value of the field's type, without quotes; for numbers never a text that can mean NULL."""
    name = field.type
    if name in BOUNDS:
        low, high = BOUNDS[name]
        return str(rng.choice((low, high, rng.randint(low, high), min(rng.randint(0, 9), high))))
    if name in {"float32", "float64"}:
        return _float(rng, name)
    if name == "bool":
        return rng.choice(("true", "false"))
    if name == "char":
        return rng.choice("aZ0#é€😀")
    if name == "string":
        return random_word(rng)
    if name == "date":
        return (date(1970, 1, 1) + timedelta(days=rng.randint(-200_000, 200_000))).isoformat()
    if name.startswith(("decimal", "numeric")):
        digits, scale = map(int, name[8:-1].split(","))
        unscaled = rng.choice((0, 1, 10**digits - 1, rng.randint(0, 10**digits - 1)))
        zeros = "0" * rng.randint(0, 9) if name.startswith("numeric") else ""  # where they are no digits
        return f"{rng.choice(('', '-'))}{unscaled // 10**scale}.{unscaled % 10**scale:0{scale}}{zeros}"
    unit = name[10:-1]
    moment = _EPOCH + timedelta(seconds=rng.randint(-9_000_000_000, 9_000_000_000))
    places = rng.randint(0, _FRACTIONS[unit])
    fraction = "." + "".join(rng.choices("0123456789", k=places)) if places else ""
    return moment.isoformat(sep=rng.choice("T ")) + fraction


def _float(rng: random.Random, name: str) -> str:
    kind = np.float32 if name == "float32" else np.float64
    limits = np.finfo(kind)
    value = rng.choice(
        (0.0, -0.0, 1.5, float(limits.max), float(limits.min), float(limits.tiny), rng.gauss(0, 1), rng.gauss(0, 1e9))
    )
    return str(kind(value))
