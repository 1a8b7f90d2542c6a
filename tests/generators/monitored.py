"""Metrics as a monitor reads them, by name and labels."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

__all__ = ["Samples", "read_samples", "samples_of"]

Samples = dict[tuple[str, ...], float]
"""Name and label values, in the order of the labels' names → value."""


def read_samples(text: bytes) -> Samples:
    """Return the samples in an answer of ``/metrics``; assert that each has a help text and occurs once."""
    return samples_of(text_string_to_metric_families(text.decode()))


def samples_of(families: Iterable[Metric]) -> Samples:
    """Return the samples of metrics as they are made."""
    found: Samples = {}
    for family in families:
        assert family.documentation, family.name
        for sample in family.samples:
            key = (sample.name, *[value for _, value in sorted(sample.labels.items())])
            assert key not in found, key
            found[key] = sample.value
    return found
