"""Shards of arrays, and arrays of shards."""

import numpy as np
import pytest

from ligerdiag.artifacts.call_records import Placement
from ligerdiag.errors import ArtifactError
from ligerdiag.replay.runs.shards import find_other_copies, join_shards, take_shard

WHOLE = np.arange(12).reshape(4, 3)
ROWS = Placement(shape=(4, 3), shards=(((0, 2), (0, 3)), ((2, 4), (0, 3))))
COPIES = Placement(shape=(4, 3), shards=(((0, 4), (0, 3)),) * 2)


def test_split_arrays_are_joined_again() -> None:
    shards = [take_shard(WHOLE, ROWS, device) for device in range(2)]
    assert shards[1].tolist() == [[6, 7, 8], [9, 10, 11]]
    assert join_shards(shards, ROWS).tolist() == WHOLE.tolist()


def test_the_first_of_several_copies_counts_and_differing_ones_are_found() -> None:
    assert join_shards([WHOLE, -WHOLE], COPIES).tolist() == WHOLE.tolist()
    assert [copy.tolist() for copy in find_other_copies([WHOLE, -WHOLE], COPIES)] == [(-WHOLE).tolist()]
    assert find_other_copies([WHOLE, WHOLE.copy()], COPIES) == []


def test_a_part_that_no_device_holds_is_an_error() -> None:
    half = Placement(shape=(4, 3), shards=(((0, 2), (0, 3)),) * 2)
    with pytest.raises(ArtifactError, match="no device has some part of an output"):
        join_shards([WHOLE[:2], WHOLE[:2]], half)


def test_an_argument_of_another_shape_is_an_error() -> None:
    with pytest.raises(ArtifactError, match="was compiled for"):
        take_shard(WHOLE.T, ROWS, 0)
