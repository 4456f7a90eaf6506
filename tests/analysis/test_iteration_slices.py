"""Which slices that the iterations of a loop give to a kernel are disjoint.

tests/newcomer shows why this matters: with jax-triton 0.4 XLA makes such calls.
"""

import json

import pytest

from ligerdiag.analysis.evaluation.loop_slices import takes_distinct_slices
from ligerdiag.analysis.writes import iterate_kernel_calls
from tests.replay.by_hand import parse_text

MODULE = """HloModule m, is_scheduled=true
part {{
  whole = f32[8,4] parameter(0)
  start = s32[] parameter(1)
  zero = s32[] constant(0)
  some = f32[{size},4] dynamic-slice(whole, {starts}), dynamic_slice_sizes={{{size},4}}
  flat = f32[{elements}] bitcast(some)
  ROOT k = f32[4] custom-call(flat), custom_call_target="triton_kernel_call"
}}
rise {{
  before = s32[] parameter(0)
  by = s32[] constant({step})
  ROOT after = s32[] add(by, before)
}}
body {{
  state = (s32[], f32[8,4], s32[]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  h = f32[8,4] get-tuple-element(state), index=1
  other = s32[] get-tuple-element(state), index=2
  top = s32[] constant(6)
  back = s32[] subtract(top, i)
  far = s32[] constant(7)
  beyond = s32[] subtract(far, i)
  lower = s32[] subtract(i, top)
  sums = f32[4] fusion(h, {start}), kind=kCustom, calls=part
  risen = s32[] fusion(i), kind=kLoop, calls=rise
  doubled = s32[] add(i, i)
  sunk = s32[] subtract(top, risen)
  ROOT next = (s32[], f32[8,4], s32[]) tuple({next}, h, other)
}}
condition {{
  cs = (s32[], f32[8,4], s32[]) parameter(0)
  ci = s32[] get-tuple-element(cs), index=0
  most = s32[] constant({bound})
  ROOT less = pred[] compare({compared}), direction={direction}
}}
ENTRY main {{
  h0 = f32[8,4] parameter(0)
  given = s32[] parameter(1)
  i0 = s32[] constant({first})
  i1 = s32[] copy(i0)
  begin = (s32[], f32[8,4], s32[]) tuple({begin}, h0, given)
  ROOT w = (s32[], f32[8,4], s32[]) while(begin), condition=condition, body=body
}}
"""
USUAL = {
    "size": 2, "step": 2, "first": 0, "bound": 8, "start": "i", "starts": "start, zero", "next": "risen", "begin": "i1",
    "compared": "ci, most", "direction": "LT",
}  # fmt: skip


def are_disjoint(config: object = None, **changed: object) -> bool:
    """Returns whether the slices are disjoint; `config` is the loop's backend config."""
    fields = USUAL | changed
    module = parse_text(MODULE.format(**fields, elements=4 * int(str(fields["size"]))))
    called = [frames for frames, _ in iterate_kernel_calls(module)]
    if not called:  # the loop never runs
        return False
    (frames,) = called
    loop = next(frame.instruction for frame in frames if frame.instruction.opcode == "while")
    loop.proto.backend_config = json.dumps(config or {}).encode()
    return takes_distinct_slices(module, frames, 0)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"size": 1, "step": 1},
        {"size": 1, "step": 1, "first": 3},
        {"bound": 6, "direction": "LE"},
        {"compared": "most, ci", "direction": "GT"},
        {"start": "back"},  # from the last to the first, as in a reversed scan
        {"start": "lower", "first": 6, "bound": 14},
    ],
)
def test_slices_as_large_as_the_step_are_disjoint(changed: dict[str, object]) -> None:
    assert are_disjoint(**changed)


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": 3},  # they overlap
        {"bound": 9},  # XLA clamps the start of the last one
        {"bound": 8, "direction": "LE"},
        {"first": -2},
        {"first": 1},
        {"bound": 0},  # the loop never runs
        {"step": -2},
        {"start": "other"},  # not the loop's counter
        {"starts": "zero, start"},  # along a dimension of 4, of which a slice takes 4
        {"starts": "start, start"},
        {"start": "beyond"},  # its first slice ends past the array
        {"start": "back", "first": 2, "bound": 10},  # its last slice would begin before the array
        {"start": "lower"},
        {"next": "sunk"},
        {"begin": "given"},  # its start is unknown
        {"next": "doubled"},
        {"next": "other"},
        {"compared": "most, ci"},
        {"direction": "NE"},
    ],
)
def test_other_slices_are_not_known_to_be_disjoint(wrong: dict[str, object]) -> None:
    assert not are_disjoint(**wrong)


def test_the_loop_config_in_a_file_is_not_trusted() -> None:
    config = {
        "known_trip_count": {"n": "4"},
        "known_init_step": {"init": "0", "step": "2"},
        "known_induction_variable": {"tuple_index": "0"},
    }
    assert not are_disjoint(config, bound=100)
    assert not are_disjoint(config, step=1)
    assert not are_disjoint(config, begin="given")
