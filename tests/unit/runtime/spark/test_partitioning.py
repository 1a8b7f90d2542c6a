"""Shard ids fall on one partition each."""

from __future__ import annotations

import pytest

from runtime.spark.planning import shard_ids, spark_partition


@pytest.mark.parametrize("shards", [1, 2, 3, 8, 50])
def test_each_partition_has_one_shard(shards: int) -> None:
    assert [spark_partition(shard, shards) for shard in shard_ids(shards)] == list(range(shards))


def test_the_hash_is_sparks() -> None:
    """Values of ``SELECT hash(0), hash(1), hash(-1)`` in Spark."""
    modulus = 2**32
    found = [spark_partition(key, modulus) for key in (0, 1, -1)]
    assert found == [933211791, -559580957 % modulus, -1604776387 % modulus]
