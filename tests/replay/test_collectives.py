"""Compares collectives with XLA:CPU on 8 host devices; the forms that it does not produce, with NumPy."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from jaxlib import _hlo

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.parse import parse_module
from ligerdiag.hlo.xla_pb2 import HloModuleProto
from ligerdiag.replay.ops.evaluate import HloEvaluator
from ligerdiag.replay.ops.scope import Array, NotCoveredError, Value
from ligerdiag.replay.runs.collectives import COLLECTIVES, exchange
from ligerdiag.replay.runs.shards import check_replicas, compute_groups
from tests.replay.collective_programs import ENVIRONMENT, PROGRAMS

SCRIPT = Path(__file__).with_name("collective_programs.py")
DEVICES = 8


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("collectives")
    environment = {**os.environ, **ENVIRONMENT}
    subprocess.run([sys.executable, str(SCRIPT), str(folder)], check=True, capture_output=True, env=environment)
    return folder


def parse_serialized(data: bytes) -> HloModule:
    proto = HloModuleProto()
    proto.ParseFromString(data)
    return parse_module(proto)


def parse_text(body: str) -> HloModule:
    text = f"""HloModule m, num_partitions=8
%add (x: f32[], y: f32[]) -> f32[] {{
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %z = f32[] add(%x, %y)
}}
ENTRY %main {{
{body}
}}"""
    return parse_serialized(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())


def run_in_lockstep(module: HloModule, arguments: Sequence[tuple[Value, ...]]) -> list[Value]:
    devices = range(len(arguments))
    scopes = [HloEvaluator(module, partition=device) for device in devices]
    values: dict[int, list[Value]] = {}
    for instruction in module.entry.instructions:
        operands = [tuple(values[o.id][device] for o in instruction.operands) for device in devices]
        if instruction.opcode == "parameter":
            result = [arguments[device][instruction.proto.parameter_number] for device in devices]
        elif instruction.opcode in COLLECTIVES:
            result = exchange(instruction, operands, scopes[0].call)
        elif instruction.opcode.endswith("-done"):
            result = [finish(instruction, operand[0]) for operand in operands]
        else:
            result = [scopes[device].evaluate(instruction, operands[device]) for device in devices]
        values[instruction.id] = result
    return values[module.entry.root.id]


def finish(done: HloInstruction, started: Value) -> Value:
    """Returns the value of a -done from that of its -start: the results, which all but an all-reduce store beside the
    operands.
    """
    return started if done.opcode == "all-reduce-done" else started[1]


def add(_computation: int, arguments: Sequence[Value]) -> Value:
    return np.add(*arguments)


def find(module: HloModule, opcode: str) -> HloInstruction:
    (found,) = [i for i in module.entry.instructions if i.opcode == opcode]
    return found


def exchange_text(body: str, opcode: str, operands: Sequence[tuple[Value, ...]]) -> list[Value]:
    return exchange(find(parse_text(body), opcode), operands, add)


def make_operands(*shape: int) -> list[tuple[Array, ...]]:
    """Element e of device d is 100 d + e."""
    count = int(np.prod(shape))
    return [(np.arange(count, dtype=np.float32).reshape(shape) + 100 * device,) for device in range(DEVICES)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_lockstep_gives_the_same_results_as_eight_host_devices(name: str, compiled: Path) -> None:
    module = parse_serialized((compiled / f"{name}.pb").read_bytes())
    numbers = np.load(compiled / f"{name}.npz")
    check_replicas(module)
    results = run_in_lockstep(module, [(numbers[f"in_{device}"],) for device in range(DEVICES)])
    for device, result in enumerate(results):
        for number, output in enumerate(result if isinstance(result, tuple) else (result,)):
            expected = numbers[f"out{number}_{device}"]
            # sums of 8 in another order: f32 differs by a few 2^-24 of the largest term, bf16 by a few 2^-8
            tolerance = 2e-2 if name == "sum_of_halves" else 1e-5
            scale = np.abs(expected).max()
            np.testing.assert_allclose(
                np.asarray(output, np.float32), expected, rtol=0, atol=tolerance * scale, err_msg=f"device {device}"
            )


def test_an_iota_of_groups_is_reshaped_and_transposed() -> None:
    body = """%p = f32[2] parameter(0)
    ROOT %r = f32[2] all-reduce(%p),
        channel_id=1, replica_groups=[2,4]<=[4,2]T(1,0), use_global_device_ids=true, to_apply=%add"""
    instruction = find(parse_text(body), "all-reduce")
    assert compute_groups(instruction, 8) == ((0, 2, 4, 6), (1, 3, 5, 7))


@pytest.mark.parametrize(
    ("axes", "groups"),
    [
        ("mesh['a'=4,'b'=2] {'a'}", ((0, 2, 4, 6), (1, 3, 5, 7))),
        ("mesh['a'=4,'b'=2] {'b'}", ((0, 1), (2, 3), (4, 5), (6, 7))),
        ("mesh['a'=4,'b'=2] {'b','a'}", ((0, 2, 4, 6, 1, 3, 5, 7),)),
        ("mesh['a'=8] {'a':(2)2}", ((0, 2), (1, 3), (4, 6), (5, 7))),
        ("mesh['a'=8] {'a':(1)2}", ((0, 4), (1, 5), (2, 6), (3, 7))),
        ("mesh['a'=8] {'a':(1)2,'a':(4)2}", ((0, 1, 4, 5), (2, 3, 6, 7))),
        ("mesh['a'=2,'b'=4], device_ids=(7,6,5,4,3,2,1,0) {'b'}", ((7, 6, 5, 4), (3, 2, 1, 0))),
    ],
)
def test_axes_of_a_mesh_are_expanded(axes: str, groups: tuple[tuple[int, ...], ...]) -> None:
    body = f"""%p = f32[2] parameter(0)
    ROOT %r = f32[2] all-reduce(%p), channel_id=1, replica_groups={axes}, use_global_device_ids=true, to_apply=%add"""
    assert compute_groups(find(parse_text(body), "all-reduce"), 8) == groups


def test_without_a_channel_each_partition_is_alone() -> None:
    body = "%p = f32[2] parameter(0)\n ROOT %r = f32[2] all-reduce(%p), replica_groups={{0}}, to_apply=%add"
    operands = make_operands(2)
    for result, (operand,) in zip(exchange_text(body, "all-reduce", operands), operands, strict=True):
        np.testing.assert_array_equal(result, operand)


def test_with_a_channel_and_replica_ids_all_partitions_are_one_group() -> None:
    body = (
        "%p = f32[2] parameter(0)\n ROOT %r = f32[2] all-reduce(%p), channel_id=1, replica_groups={{0}}, to_apply=%add"
    )
    for result in exchange_text(body, "all-reduce", make_operands(2)):
        np.testing.assert_array_equal(result, [2800, 2808])


def test_groups_of_several_replicas_are_not_covered() -> None:
    body = "%p = f32[2] parameter(0)\n ROOT %r = f32[2] all-reduce(%p), replica_groups={{0,1}}, to_apply=%add"
    with pytest.raises(NotCoveredError, match="collectives among replicas"):
        exchange_text(body, "all-reduce", make_operands(2))


def test_a_module_in_two_replicas_is_not_covered() -> None:
    proto = HloModuleProto()
    text = "HloModule m\nENTRY %e {\n ROOT %p = f32[2] parameter(0)\n}"
    proto.ParseFromString(_hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto())
    check_replicas(parse_module(proto))
    proto.device_assignment.replica_count = 2
    with pytest.raises(NotCoveredError, match="2 replicas"):
        check_replicas(parse_module(proto))


def test_a_device_outside_every_group_is_an_error() -> None:
    body = """%p = f32[2] parameter(0)
    ROOT %r = f32[2] all-reduce(%p),
        channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=%add"""
    with pytest.raises(ArtifactError, match="do not list each of 8 devices exactly once"):
        exchange_text(body, "all-reduce", make_operands(2))


def test_a_start_of_all_gather_keeps_its_operands_and_its_done_takes_the_results() -> None:
    body = """%p = f32[1] parameter(0)
    %s = (f32[1], f32[2]) all-gather-start(%p), channel_id=1,
        replica_groups={{1,0},{2,3},{4,5},{6,7}}, dimensions={0}, use_global_device_ids=true
    ROOT %d = f32[2] all-gather-done(%s)"""
    module = parse_text(body)
    started = exchange(find(module, "all-gather-start"), make_operands(1), add)
    done = find(module, "all-gather-done")
    np.testing.assert_array_equal(finish(done, started[0]), [100, 0])
    np.testing.assert_array_equal(finish(done, started[5]), [400, 500])
    np.testing.assert_array_equal(started[5][0], [500])


def test_a_start_of_several_all_gathers_nests_operands_and_results() -> None:
    body = """%p = f32[1] parameter(0)
    %q = f32[1,2] parameter(1)
    %s = ((f32[1], f32[1,2]), (f32[8], f32[8,2])) all-gather-start(%p, %q), channel_id=1,
        replica_groups={{0,1,2,3,4,5,6,7}}, dimensions={0}, use_global_device_ids=true
    ROOT %d = (f32[8], f32[8,2]) all-gather-done(%s)"""
    module = parse_text(body)
    operands = [(*p, *q) for p, q in zip(make_operands(1), make_operands(1, 2), strict=True)]
    ((_, (first, second)), *_) = exchange(find(module, "all-gather-start"), operands, add)
    np.testing.assert_array_equal(first, np.arange(8) * 100)
    np.testing.assert_array_equal(second[3], [300, 301])


def test_a_start_of_collective_permute_has_contexts_and_zeros_for_devices_that_receive_nothing() -> None:
    body = """%p = f32[2] parameter(0)
    %s = (f32[2], f32[2], u32[], u32[]) collective-permute-start(%p), channel_id=1, source_target_pairs={{0,3},{3,0}}
    ROOT %d = f32[2] collective-permute-done(%s)"""
    module = parse_text(body)
    started = exchange(find(module, "collective-permute-start"), make_operands(2), add)
    results = [finish(find(module, "collective-permute-done"), value) for value in started]
    np.testing.assert_array_equal(results, [[300, 301], [0, 0], [0, 0], [0, 1], *[[0, 0]] * 4])
    assert len(started[0]) == 4


def test_the_start_of_an_all_reduce_already_has_the_result() -> None:
    body = """%p = f32[2] parameter(0)
    %s = f32[2] all-reduce-start(%p), channel_id=1,
        replica_groups={{0,4},{1,5},{2,6},{3,7}}, use_global_device_ids=true, to_apply=%add
    ROOT %d = f32[2] all-reduce-done(%s)"""
    module = parse_text(body)
    started = exchange(find(module, "all-reduce-start"), make_operands(2), add)
    np.testing.assert_array_equal(finish(find(module, "all-reduce-done"), started[6]), [800, 802])


def test_several_operands_are_scattered_one_by_one() -> None:
    body = """%p = f32[2] parameter(0)
    %q = f32[2,3] parameter(1)
    ROOT %r = (f32[1], f32[1,3]) reduce-scatter(%p, %q), channel_id=1,
        replica_groups={{0,1},{2,3},{4,5},{6,7}}, dimensions={0}, use_global_device_ids=true, to_apply=%add"""
    operands = [(*p, *q) for p, q in zip(make_operands(2), make_operands(2, 3), strict=True)]
    results = exchange_text(body, "reduce-scatter", operands)
    np.testing.assert_array_equal(results[3][0], [502])
    np.testing.assert_array_equal(results[3][1], [[506, 508, 510]])


def test_all_to_all_of_a_tuple_gives_the_arrays_that_each_device_sent() -> None:
    body = """%p = f32[1] parameter(0)
    %q = f32[1] parameter(1)
    ROOT %r = (f32[1], f32[1]) all-to-all(%p, %q), channel_id=1,
        replica_groups={{0,7},{1,6},{2,5},{3,4}}"""
    operands = [(*p, *(v + 50 for v in p)) for p in make_operands(1)]
    results = exchange_text(body, "all-to-all", operands)
    np.testing.assert_array_equal(results[0], [[0], [700]])
    np.testing.assert_array_equal(results[7], [[50], [750]])


def test_a_broadcast_starts_at_the_first_of_a_group_and_leaves_zeros_elsewhere() -> None:
    body = """%p = f32[2] parameter(0)
    ROOT %r = f32[2] collective-broadcast(%p), channel_id=1,
        replica_groups={{2,0},{5,6}}"""
    results = exchange_text(body, "collective-broadcast", make_operands(2))
    np.testing.assert_array_equal([r[1] for r in results], [201, 0, 201, 0, 0, 501, 501, 0])


def test_a_reduction_goes_through_the_group_in_its_order() -> None:
    body = """%p = f32[1] parameter(0)
    ROOT %r = f32[1] all-reduce(%p),
        channel_id=1, replica_groups={{3,1,0,2},{4,5,6,7}}, use_global_device_ids=true, to_apply=%add"""
    seen: list[tuple[float, float]] = []

    def keep_left(_computation: int, arguments: Sequence[Value]) -> Value:
        left, right = (np.asarray(a) for a in arguments)
        seen.append((float(left[0]), float(right[0])))
        return left

    exchange(find(parse_text(body), "all-reduce"), make_operands(1), keep_left)
    assert seen[:3] == [(300, 100), (300, 0), (300, 200)]


def test_operands_are_not_changed() -> None:
    body = """%p = f32[2] parameter(0)
    ROOT %r = f32[2] all-reduce(%p),
        channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}, use_global_device_ids=true, to_apply=%add"""
    operands = make_operands(2)
    exchange_text(body, "all-reduce", operands)
    np.testing.assert_array_equal(operands, make_operands(2))


def test_another_opcode_is_not_covered_as_a_collective() -> None:
    module = parse_text("%p = f32[2] parameter(0)\n ROOT %r = f32[2] negate(%p)")
    with pytest.raises(NotCoveredError, match="negate"):
        exchange(module.entry.root, make_operands(2), add)
