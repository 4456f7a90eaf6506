"""The schedule on its own bytes: order, sharing, layouts, loops."""

import numpy as np
import pytest

from ligerdiag.errors import ArtifactError
from ligerdiag.replay.ops.scope import NotCoveredError
from ligerdiag.replay.runs.schedule import ScheduleRunner
from tests.replay.by_hand import LOOP, Doubling, X, assign, call, parse

PLACES = {"x": (0, 0), "h": 0, "k": 64, "r": 128, "t": 192}


def run_reader(before: bool) -> tuple[list[float], list[float]]:
    read, kernel = "r = f32[4] negate(h)", call("k", "h")
    first, second = (read, kernel) if before else (kernel, read)
    module = parse(
        f"{{\nx = f32[4] parameter(0)\nh = f32[4] copy(x)\n{first}\n{second}\nROOT t = (f32[4], f32[4]) tuple(k, r)\n}}"
    )
    results = ScheduleRunner(module=module, buffers=assign(module, PLACES), kernels=Doubling()).execute([[X]])
    return results[0][0].tolist(), results[0][1].tolist()


def test_a_reader_sees_the_bytes_as_of_its_place_in_the_schedule() -> None:
    assert run_reader(before=True) == ([1, 2, 3, 4], [-1, -2, -3, -4])
    assert run_reader(before=False) == ([1, 2, 3, 4], [-2, -4, -6, -8])


def test_a_copy_is_not_overwritten_with_its_original() -> None:
    lines = [
        "x = f32[4] parameter(0)",
        "h = f32[4] copy(x)",
        "c = f32[4] copy(h)",
        call("k", "c"),
        "r = f32[4] negate(h)",
    ]
    module = parse("{\n" + "\n".join(lines) + "\nROOT t = (f32[4], f32[4]) tuple(k, r)\n}")
    schedule = ScheduleRunner(module=module, buffers=assign(module, PLACES | {"c": 256}), kernels=Doubling())
    assert schedule.execute([[X]])[0][1].tolist() == [-1, -2, -3, -4]


def test_two_values_in_the_same_bytes_are_equal() -> None:
    lines = ["x = f32[4] parameter(0)", "h = f32[4] copy(x)", "o = f32[4] add(h, h)", "r = f32[4] negate(h)"]
    module = parse("{\n" + "\n".join(lines) + "\nROOT t = (f32[4], f32[4]) tuple(o, r)\n}")
    apart = ScheduleRunner(module=module, buffers=assign(module, PLACES | {"o": 256}), kernels=Doubling())
    shared = ScheduleRunner(module=module, buffers=assign(module, PLACES | {"o": 0}), kernels=Doubling())
    assert apart.execute([[X]])[0][1].tolist() == [-1, -2, -3, -4]
    assert shared.execute([[X]])[0][1].tolist() == [-2, -4, -6, -8]


def test_unwritten_memory_is_nan() -> None:
    module = parse("{\nx = f32[4] parameter(0)\n" + call("k", "x") + "\nROOT r = f32[4] negate(k)\n}")

    class Lazy(Doubling):
        def launch(self, *arguments: object, **names: object) -> None:
            """Leaves its output unchanged."""

    schedule = ScheduleRunner(module=module, buffers=assign(module, PLACES), kernels=Lazy())
    assert np.isnan(schedule.execute([[X]])[0][0]).all()


def test_a_layout_gives_the_order_of_the_elements_in_memory() -> None:
    body = "{\nx = f32[2,2]{1,0} parameter(0)\nh = f32[2,2]{0,1} copy(x)\n" + call("k", "h", "f32[4]")
    module = parse(body + "\nROOT t = (f32[4], f32[2,2]{0,1}) tuple(k, h)\n}")
    kernels = Doubling()
    results = ScheduleRunner(module=module, buffers=assign(module, PLACES), kernels=kernels).execute(
        [[X.reshape(2, 2)]]
    )
    assert kernels.launches == [("k", [[1, 3, 2, 4]])]
    assert results[0][1].tolist() == [[2, 4], [6, 8]]


LOOP_BODY = """{
x = f32[4] parameter(0)
h0 = f32[4] copy(x)
zero = s32[] constant(0)
i0 = s32[] copy(zero)
start = (s32[], f32[4]) tuple(i0, h0)
w = (s32[], f32[4]) while(start), condition=condition, body=body
ROOT out = f32[4] get-tuple-element(w), index=1
}"""
LOOP_PLACES = {
    "x": (0, 0), "h0": 0, "zero": (50, 0), "i0": 64, "one": (51, 0), "three": (52, 0), "j": 64, "k": 128, "less": 192,
    "w{0}": 64, "w{1}": 0,
}  # fmt: skip


def test_a_loop_carries_its_state_in_place() -> None:
    module = parse(LOOP_BODY, LOOP)
    schedule = ScheduleRunner(module=module, buffers=assign(module, LOOP_PLACES), kernels=Doubling())
    assert schedule.execute([[X]])[0][0].tolist() == [8, 16, 24, 32]


def test_a_loop_whose_state_has_two_places_is_refused() -> None:
    module = parse(LOOP_BODY, LOOP)
    schedule = ScheduleRunner(module=module, buffers=assign(module, LOOP_PLACES | {"j": 256}), kernels=Doubling())
    with pytest.raises(ArtifactError, match="the state of loop"):
        schedule.execute([[X]])


def test_an_overwritten_constant_stays_overwritten_in_the_next_execution() -> None:
    body = (
        "{\nx = f32[4] parameter(0)\nc = f32[4] constant({1, 2, 3, 4})\n"
        + call("k", "c")
        + "\nROOT r = f32[4] add(c, x)\n}"
    )
    module = parse(body)
    schedule = ScheduleRunner(module=module, buffers=assign(module, PLACES | {"c": (9, 0)}), kernels=Doubling())
    zeros = np.zeros(4, np.float32)
    assert [schedule.execute([[zeros]])[0][0].tolist() for _ in range(2)] == [[2, 4, 6, 8], [4, 8, 12, 16]]
    assert schedule.read_constants()[0].tolist() == [4, 8, 12, 16]


def test_an_overwritten_argument_is_visible_and_restored_in_the_next_execution() -> None:
    module = parse("{\nx = f32[4] parameter(0)\n" + call("k", "x") + "\nROOT r = f32[4] negate(k)\n}")
    schedule = ScheduleRunner(module=module, buffers=assign(module, PLACES), kernels=Doubling())
    for _ in range(2):
        assert schedule.execute([[X]])[0][0].tolist() == [-1, -2, -3, -4]
        assert schedule.read_parameter(0, 0).tolist() == [2, 4, 6, 8]
    assert X.tolist() == [1, 2, 3, 4]


def test_devices_run_in_lockstep_on_separate_bytes() -> None:
    computations = "sum {\na = f32[] parameter(0)\nb = f32[] parameter(1)\nROOT s = f32[] add(a, b)\n}"
    body = "{\nx = f32[4] parameter(0)\nh = f32[4] copy(x)\n" + call("k", "h")
    body += "\nROOT r = f32[4] all-reduce(h), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true,"
    body += " to_apply=sum\n}"
    module = parse(body, computations)
    schedule = ScheduleRunner(module=module, buffers=assign(module, PLACES), kernels=Doubling(), devices=2)
    results = schedule.execute([[X], [10 * X]])
    assert [one[0].tolist() for one in results] == [[22, 44, 66, 88]] * 2


def test_a_value_that_does_not_fit_its_place_is_refused() -> None:
    module = parse("{\nx = f32[64] parameter(0)\nROOT r = f32[64] negate(x)\n}")
    with pytest.raises(ArtifactError, match="needs 256 bytes, but the buffer assignment gives it 64"):
        ScheduleRunner(module=module, buffers=assign(module, PLACES), kernels=Doubling()).execute(
            [[np.zeros(64, np.float32)]]
        )


def test_an_opcode_that_is_not_covered_is_named() -> None:
    module = parse(
        "{\nx = f32[4] parameter(0)\nROOT r = f32[4] rng-get-and-update-state(), delta=1\n}".replace(
            "f32[4] rng", "u64[2] rng"
        )
    )
    with pytest.raises(NotCoveredError, match="rng-get-and-update-state"):
        ScheduleRunner(module=module, buffers=assign(module, PLACES), kernels=Doubling()).execute([[X]])


def test_all_devices_run_a_loop() -> None:
    module = parse(LOOP_BODY, LOOP)
    schedule = ScheduleRunner(module=module, buffers=assign(module, LOOP_PLACES), kernels=Doubling(), devices=2)
    assert [one[0].tolist() for one in schedule.execute([[X], [10 * X]])] == [[8, 16, 24, 32], [80, 160, 240, 320]]


SUM = "sum {\na = f32[] parameter(0)\nb = f32[] parameter(1)\nROOT s = f32[] add(a, b)\n}"


def test_an_exchange_that_only_some_devices_reach_is_not_covered() -> None:
    branches = f"""{SUM}
with {{
  p = f32[4] parameter(0)
  ROOT r = f32[4] all-reduce(p), channel_id=1, replica_groups={{{{0,1}}}}, use_global_device_ids=true, to_apply=sum
}}
without {{
  q = f32[4] parameter(0)
  ROOT n = f32[4] negate(q)
}}"""
    body = "{\nx = f32[4] parameter(0)\nwhich = pred[] parameter(1)\nROOT c = f32[4] conditional(which, x, x), "
    module = parse(body + "true_computation=with, false_computation=without\n}", branches)
    places = assign(module, {"x": (0, 0), "which": (1, 0), "r": 0, "n": 0, "c": 64})
    schedule = ScheduleRunner(module=module, buffers=places, kernels=Doubling(), devices=2)
    no, yes = np.array(False), np.array(True)
    assert [one[0].tolist() for one in schedule.execute([[X, no], [-X, no]])] == [(-X).tolist(), X.tolist()]
    assert {"r"} <= set(schedule.list_unreached()) <= {"p", "r", "a", "b", "s"}
    with pytest.raises(NotCoveredError, match="only some devices run"):
        schedule.execute([[X, no], [X, yes]])


def test_numbers_do_not_test_a_maximum() -> None:
    """A softmax subtracts its maximum: with any other number the result is the same."""
    reducers = "".join(
        f"{name} {{\na = f32[] parameter(0)\nb = f32[] parameter(1)\nROOT {name}.r = f32[] {name}(a, b)\n}}\n"
        for name in ("maximum", "add")
    )
    body = "{\nx = f32[4] parameter(0)\nzero = f32[] constant(0)\n"
    body += "m = f32[] reduce(x, zero), dimensions={0}, to_apply=maximum\n"
    body += "s = f32[] reduce(x, zero), dimensions={0}, to_apply=add\nROOT t = (f32[], f32[]) tuple(m, s)\n}"
    module = parse(body, reducers)
    places = assign(module, {"x": (0, 0), "m": 0, "s": 64, "zero": 128, "t": 192})
    schedule = ScheduleRunner(module=module, buffers=places, kernels=Doubling())
    assert [one[:2] for one in map(list, schedule.execute([[X]]))] == [[4, 10]]
    assert {"m", "s"}.intersection(schedule.list_unreached()) == {"m"}


def test_a_fusion_reads_all_its_operands_before_it_writes() -> None:
    fused = "both {\np = f32[4] parameter(0)\ns = f32[4] slice(p), slice={[0:4]}\nn = f32[4] negate(p)\n"
    fused += "ROOT t = (f32[4], f32[4]) tuple(n, s)\n}"
    body = "{\nx = f32[4] parameter(0)\nh = f32[4] copy(x)\n"
    module = parse(body + "ROOT f = (f32[4], f32[4]) fusion(h), kind=kLoop, calls=both\n}", fused)
    places = assign(module, {"x": (0, 0), "h": 0, "f{0}": 0, "f{1}": 64})
    results = ScheduleRunner(module=module, buffers=places, kernels=Doubling()).execute([[X]])
    assert [one.tolist() for one in results[0]] == [[-1, -2, -3, -4], [1, 2, 3, 4]]


def test_devices_exchange_the_values_from_before_the_exchange() -> None:
    body = "{\nx = f32[4] parameter(0)\nh = f32[4] copy(x)\nROOT p = f32[4] collective-permute(h), channel_id=1, "
    module = parse(body + "source_target_pairs={{0,1},{1,0}}\n}")
    places = assign(module, {"x": (0, 0), "h": 0, "p": 0})
    results = ScheduleRunner(module=module, buffers=places, kernels=Doubling(), devices=2).execute([[X], [10 * X]])
    assert [one[0].tolist() for one in results] == [[10, 20, 30, 40], [1, 2, 3, 4]]


def test_a_collective_inside_a_fusion_is_an_exchange_too() -> None:
    fused = f"""{SUM}
both {{
  p = f32[4] parameter(0)
  n = f32[4] negate(p)
  ROOT r = f32[4] all-reduce(n), channel_id=1, replica_groups={{{{0,1}}}}, use_global_device_ids=true, to_apply=sum
}}"""
    body = "{\nx = f32[4] parameter(0)\nh = f32[4] copy(x)\n"
    module = parse(body + "ROOT f = f32[4] fusion(h), kind=kCustom, calls=both\n}", fused)
    places = assign(module, {"x": (0, 0), "h": 0, "f": 0})
    results = ScheduleRunner(module=module, buffers=places, kernels=Doubling(), devices=2).execute([[X], [10 * X]])
    assert [one[0].tolist() for one in results] == [[-11, -22, -33, -44]] * 2


SLICED = """fused {
  p = f32[2,4] parameter(0)
  number = s32[] parameter(1)
  zero = s32[] constant(0)
  row = f32[1,4] dynamic-slice(p, number, zero), dynamic_slice_sizes={1,4}
  b = f32[4] bitcast(row)
  ROOT k = f32[4] custom-call(b), custom_call_target="triton_kernel_call"
}"""


def run_sliced(computation: str) -> list[list[float]]:
    lines = [
        "x = f32[2,4] parameter(0)",
        "one = s32[] constant(1)",
        "h = f32[2,4] copy(x)",
        "k_of = f32[4] fusion(h, one), kind=kCustom, calls=fused",
        "r = f32[2,4] negate(h)",
    ]
    body = "{\n" + "\n".join(lines) + "\nROOT t = (f32[4], f32[2,4]) tuple(k_of, r)\n}"
    module = parse(body, computation)
    places = {"x": (0, 0), "h": 0, "one": 64, "k_of": 128, "r": 192, "t": 256}
    schedule = ScheduleRunner(module=module, buffers=assign(module, places), kernels=Doubling())
    return [result.tolist() for result in schedule.execute([[np.stack([X, 10 * X])]])[0]]


def test_a_kernel_in_a_fusion_overwrites_the_slice_in_the_larger_array() -> None:
    assert run_sliced(SLICED) == [[10, 20, 30, 40], [[-1, -2, -3, -4], [-20, -40, -60, -80]]]


def test_another_fusion_with_a_kernel_is_not_covered() -> None:
    computation = SLICED.replace("bitcast(row)", "negate(flat)").replace(
        "  b = f32[4] negate", "  flat = f32[4] bitcast(row)\n  b = f32[4] negate"
    )
    with pytest.raises(NotCoveredError, match="is not contiguous"):
        run_sliced(computation)


def test_a_declared_output_of_a_kernel_in_a_fusion_is_its_operand_only_if_it_has_its_place() -> None:
    """Here it lies elsewhere: the row is overwritten, and the output holds no number."""
    declared = SLICED.replace('"triton_kernel_call"', '"triton_kernel_call", output_to_operand_aliasing={{}: (0, {})}')
    output, rest = run_sliced(declared)
    assert rest == [[-1, -2, -3, -4], [-20, -40, -60, -80]]
    assert output == [10, 20, 30, 40]  # stored by the kernel through the output's own pointer
