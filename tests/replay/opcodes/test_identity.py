"""The number of the device that runs the program."""

import numpy as np
import pytest

from tests.replay.xla_cpu import evaluate_module, parse_text


@pytest.mark.parametrize("partition", [0, 3])
def test_a_device_knows_its_partition_and_there_is_one_replica(partition: int) -> None:
    text = """HloModule m
    ENTRY e {
      p = u32[] partition-id()
      q = u32[] replica-id()
      ROOT r = (u32[], u32[]) tuple(p, q)
    }"""
    found = evaluate_module(parse_text(text), [], partition=partition)
    assert isinstance(found, tuple)
    assert [(int(np.asarray(v)), np.asarray(v).dtype, np.asarray(v).shape) for v in found] == [
        (partition, np.uint32, ()),
        (0, np.uint32, ()),
    ]
