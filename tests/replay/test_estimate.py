"""Estimates of hand-written modules: which properties make a replay more expensive."""

import json
import math

import pytest
from jaxlib import _hlo

from ligerdiag.hlo.buffers import BufferAssignment, Slice
from ligerdiag.hlo.module import HloModule
from ligerdiag.hlo.parse import parse_module
from ligerdiag.hlo.xla_pb2 import HloModuleProto
from ligerdiag.replay.estimate import FLOPS, INSTRUCTION_SECONDS, Estimate, count_allocated_bytes, count_flops, estimate
from ligerdiag.replay.runs.loop_cuts import find_longest_loop, find_trip_count

EMPTY = BufferAssignment(slices=(), definitions={}, overlapping={}, parameters={})


def parse_text(text: str) -> HloModule:
    proto = HloModuleProto()
    proto.ParseFromString(_hlo.hlo_module_from_text("HloModule m\n" + text).as_serialized_hlo_module_proto())
    return parse_module(proto)


def make_product(rows: int, inner: int, columns: int) -> HloModule:
    return parse_text(f"""ENTRY %e {{
  %x = f32[{rows},{inner}] parameter(0)
  %y = f32[{inner},{columns}] parameter(1)
  ROOT %z = f32[{rows},{columns}] dot(%x, %y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}""")


def make_kernel(rows: int) -> HloModule:
    return parse_text(f"""ENTRY %e {{
  %x = f32[{rows},8] parameter(0)
  ROOT %k = f32[{rows}] custom-call(%x), custom_call_target="triton_kernel_call", backend_config="payload"
}}""")


def make_loop(
    limit: int, *, start: str = "constant(0)", direction: str = "LT", config: str = "", step: int = 1
) -> HloModule:
    """A loop over products, whose counter passes through barriers as in a program as written."""
    return parse_text(f"""%body (p: (s32[], f32[64,64])) -> (s32[], f32[64,64]) {{
  %p = (s32[], f32[64,64]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %one = s32[] constant({step})
  %next = s32[] add(%i, %one)
  %x = f32[64,64] get-tuple-element(%p), index=1
  %y = f32[64,64] dot(%x, %x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT %t = (s32[], f32[64,64]) tuple(%next, %y)
}}
%condition (p: (s32[], f32[64,64])) -> pred[] {{
  %p = (s32[], f32[64,64]) parameter(0)
  %i = s32[] get-tuple-element(%p), index=0
  %limit = s32[] constant({limit})
  %less = pred[] compare(%i, %limit), direction={direction}
  ROOT %seen = pred[] opt-barrier(%less)
}}
ENTRY %e {{
  %x = f32[64,64] parameter(0)
  %n = s32[] parameter(1)
  %start = s32[] {start}
  %seen = s32[] opt-barrier(%start)
  %t = (s32[], f32[64,64]) tuple(%seen, %x)
  %b = (s32[], f32[64,64]) opt-barrier(%t)
  ROOT %w = (s32[], f32[64,64]) while(%b), condition=%condition, body=%body{config}
}}""")


def count_trips(module: HloModule) -> int | None:
    (loop,) = [i for i in module.entry.instructions if i.opcode == "while"]
    return find_trip_count(module, loop)


def run(
    program: HloModule,
    optimized: HloModule | None = None,
    *,
    devices: int = 1,
    cores: int = 1,
    kernel: float = 0.0,
    buffers: BufferAssignment = EMPTY,
) -> Estimate:
    return estimate(
        program, optimized or program, buffers, kernel_seconds=lambda _: kernel, devices=devices, cores=cores
    )


def test_a_product_costs_its_flops_in_each_of_the_three_runs() -> None:
    module = make_product(256, 1024, 2048)
    assert count_flops(module.entry.root) == 2 * 256 * 1024 * 2048
    # the rest is a few instructions that are visited
    assert run(module).seconds == pytest.approx(3 * 2 * 256 * 1024 * 2048 / FLOPS, rel=0.02)


def test_a_large_product_is_computed_in_only_two_runs_if_its_result_can_be_kept() -> None:
    assert run(make_product(512, 1024, 2048)).seconds == pytest.approx(2 * 2 * 512 * 1024 * 2048 / FLOPS, rel=0.02)
    large = 2 * (1 << 18) * 64 * (1 << 11)  # its result alone is as large as the whole memo
    assert run(make_product(1 << 18, 64, 1 << 11)).seconds == pytest.approx(3 * large / FLOPS, rel=0.02)


def test_a_library_call_costs_as_much_as_its_product() -> None:
    call = parse_text("""ENTRY %e {
  %x = f32[512,1024] parameter(0)
  %y = f32[1024,2048] parameter(1)
  ROOT %z = (f32[512,2048], s8[33554432]) custom-call(%x, %y), custom_call_target="__cublas$lt$matmul"
}""")
    assert run(call).seconds == pytest.approx(run(make_product(512, 1024, 2048)).seconds, rel=1e-9)


@pytest.mark.parametrize("grown", [(128, 64, 64), (64, 128, 64), (64, 64, 128)])
def test_larger_shapes_take_longer_and_more_memory(grown: tuple[int, int, int]) -> None:
    small, large = run(make_product(64, 64, 64)), run(make_product(*grown))
    assert large.seconds > small.seconds
    assert large.bytes > small.bytes


def test_elements_that_are_reduced_count() -> None:
    def make(rows: int) -> HloModule:
        return parse_text(f"""%add (x: f32[], y: f32[]) -> f32[] {{
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %z = f32[] add(%x, %y)
}}
ENTRY %e {{
  %x = f32[{rows},1000] parameter(0)
  %zero = f32[] constant(0)
  ROOT %r = f32[1000] reduce(%x, %zero), dimensions={{0}}, to_apply=%add
}}""")

    assert run(make(2000)).seconds > 1.5 * run(make(1000)).seconds


def test_fused_instructions_count() -> None:
    module = parse_text("""%fused (x: f32[1000000]) -> f32[1000000] {
  %x = f32[1000000] parameter(0)
  %y = f32[1000000] exponential(%x)
  ROOT %z = f32[1000000] add(%y, %x)
}
ENTRY %e {
  %x = f32[1000000] parameter(0)
  ROOT %f = f32[1000000] fusion(%x), kind=kLoop, calls=%fused
}""")
    # two instructions of a million elements at 1 ns, three times
    assert run(module).seconds == pytest.approx(6e-3, rel=0.1)


def test_more_iterations_take_longer_in_proportion() -> None:
    few, many = run(make_loop(400)).seconds, run(make_loop(4000)).seconds
    assert many == pytest.approx(10 * few, rel=0.05)
    # 64x64 products, and at least 10 instructions of body and condition, three times
    assert many - few >= 3 * 3600 * (2 * 64**3 / FLOPS + 10 * INSTRUCTION_SECONDS)


def test_iterations_are_read_from_condition_and_start() -> None:
    assert count_trips(make_loop(12)) == 12
    assert count_trips(make_loop(12, start="constant(5)")) == 7
    assert count_trips(make_loop(3, start="constant(5)")) == 0


def test_iterations_that_xla_knows_come_first() -> None:
    config = json.dumps({"known_trip_count": {"n": "7"}}).replace('"', '\\"')
    module = make_loop(12, config=f', backend_config="{config}"')
    assert count_trips(module) == 7
    assert find_longest_loop(module) == 7


@pytest.mark.parametrize("config", ['"no json"', '"[]"', '"{}"', '"3"'])
def test_a_backend_config_of_another_form_is_ignored(config: str) -> None:
    module = make_loop(12, config=f", backend_config={config}")
    assert count_trips(module) == 12


def test_another_form_of_condition_gives_no_count() -> None:
    assert count_trips(make_loop(12, direction="NE")) is None
    assert count_trips(make_loop(12, start="copy(%n)")) is None


def test_a_loop_of_unknown_length_in_the_program_runs_as_often_as_the_optimized_one() -> None:
    found = run(make_loop(12, direction="NE"), make_loop(400))
    assert found.notes == ("the loop `w` is assumed to run 400 times",)
    assert found.seconds == pytest.approx(run(make_loop(400)).seconds, rel=0.01)


def test_a_loop_of_unknown_length_in_both_modules_counts_once_and_is_noted() -> None:
    found = run(make_loop(12, direction="NE"))
    assert found.notes == ("the loop `w` is assumed to run 1 time",) * 2


def test_a_kernel_counts_once_for_the_program_and_once_for_the_schedule() -> None:
    module = make_kernel(32)
    assert run(module, kernel=5).seconds - run(module).seconds == pytest.approx(10)


def test_a_kernel_on_whole_operands_counts_once_and_on_shards_once_per_device() -> None:
    program, replicated, sharded = make_kernel(32), make_kernel(32), make_kernel(8)
    assert run(program, replicated, kernel=5, devices=4).seconds == pytest.approx(10, rel=0.01)
    assert run(program, sharded, kernel=5, devices=4).seconds == pytest.approx(25, rel=0.01)


def test_cores_share_only_products() -> None:
    module = make_kernel(32)
    assert run(module, kernel=5, cores=4).seconds == run(module, kernel=5).seconds
    large = make_product(1024, 1024, 1024)
    assert run(large, cores=2).seconds < run(large).seconds


def test_the_schedule_runs_on_each_device() -> None:
    module = make_product(64, 64, 64)
    assert run(module, devices=8).seconds == pytest.approx(run(module).seconds * 10 / 3, rel=1e-9)


def test_the_most_expensive_branch_counts() -> None:
    module = parse_text("""%cheap (x: f32[1000000]) -> f32[1000000] {
  ROOT %x = f32[1000000] parameter(0)
}
%dear (x: f32[1000000]) -> f32[1000000] {
  %x = f32[1000000] parameter(0)
  ROOT %y = f32[1000000] negate(%x)
}
ENTRY %e {
  %x = f32[1000000] parameter(0)
  %p = pred[] parameter(1)
  ROOT %c = f32[1000000] conditional(%p, %x, %x), true_computation=%dear, false_computation=%cheap
}""")
    # a million elements at 1 ns, three times; another branch would double it
    assert run(module).seconds == pytest.approx(3e-3, rel=0.15)


def test_allocations_are_counted_to_the_end_of_their_last_slice_on_each_device() -> None:
    slices = (Slice(0, 0, 100), Slice(0, 64, 100), Slice(2, 0, 1000))
    buffers = BufferAssignment(slices=slices, definitions={}, overlapping={}, parameters={})
    module = make_product(1, 1, 1)
    assert count_allocated_bytes(buffers) == 1164
    assert run(module, devices=4, buffers=buffers).bytes - run(module, devices=4).bytes == 4656


def test_a_computation_with_many_callers_is_visited_once() -> None:
    levels = "\n".join(
        f"""%f{n} (x: f32[]) -> f32[] {{
  %x = f32[] parameter(0)
  %a = f32[] call(%x), to_apply=%f{n - 1}
  ROOT %b = f32[] call(%a), to_apply=%f{n - 1}
}}"""
        for n in range(1, 60)
    )
    module = parse_text(f"""%f0 (x: f32[]) -> f32[] {{
  ROOT %x = f32[] parameter(0)
}}
{levels}
ENTRY %e {{
  %x = f32[] parameter(0)
  ROOT %r = f32[] call(%x), to_apply=%f59
}}""")
    assert run(module).seconds > 2.0**59 * INSTRUCTION_SECONDS
    assert math.isfinite(run(module).seconds)
