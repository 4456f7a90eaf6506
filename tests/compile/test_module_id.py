"""A module's number in its process is removed from its files."""

import pytest

from ligerdiag.artifacts.artifact import drop_module_id
from ligerdiag.hlo.xla_pb2 import HloProto


def test_only_the_id_is_removed() -> None:
    proto = HloProto()
    proto.hlo_module.name = "jit_f" * 100
    proto.hlo_module.entry_computation_id = 7
    proto.hlo_module.computations.add().name = "entry"
    proto.buffer_assignment.buffer_allocations.add().size = 1 << 40
    expected = proto.SerializeToString()
    proto.hlo_module.id = 300
    assert proto.SerializeToString() != expected
    assert drop_module_id(proto.SerializeToString()) == expected
    assert drop_module_id(expected) == expected
    assert drop_module_id(b"") == b""


def test_a_file_that_is_not_a_protobuf_is_refused() -> None:
    proto = HloProto()
    proto.hlo_module.name = "jit_f"
    with pytest.raises(ValueError, match="truncated"):
        drop_module_id(proto.SerializeToString()[:-1])
    with pytest.raises(ValueError, match="wire type"):
        drop_module_id(b"\x0f")
