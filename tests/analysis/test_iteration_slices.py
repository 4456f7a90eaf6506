"""Which slices of a loop are apart. That it matters is seen in tests/newcomer: with jax-triton 0.4 XLA makes such calls."""

import json

import pytest

from ligerdiag.analysis.iteration_slices import takes_slices_apart
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
body {{
  state = (s32[], f32[8,4], s32[]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  h = f32[8,4] get-tuple-element(state), index=1
  other = s32[] get-tuple-element(state), index=2
  sums = f32[4] fusion(h, {start}), kind=kCustom, calls=part
  one = s32[] constant({step})
  j = s32[] add(i, one)
  ROOT next = (s32[], f32[8,4], s32[]) tuple(j, h, other)
}}
condition {{
  cs = (s32[], f32[8,4], s32[]) parameter(0)
  ci = s32[] get-tuple-element(cs), index=0
  most = s32[] constant(8)
  ROOT less = pred[] compare(ci, most), direction=LT
}}
ENTRY main {{
  begin = (s32[], f32[8,4], s32[]) parameter(0)
  ROOT w = (s32[], f32[8,4], s32[]) while(begin), condition=condition, body=body
}}
"""


def ask(
    *, size: int = 2, step: int = 2, count: int = 4, start: str = "i", starts: str = "start, zero", said: bool = True
) -> bool:
    module = parse_text(MODULE.format(size=size, elements=size * 4, step=step, start=start, starts=starts))
    config = {
        "known_trip_count": {"n": str(count)},
        "known_init_step": {"init": "0", "step": str(step)},
        "known_induction_variable": {"tuple_index": "0"},
    }
    ((frames, _),) = iterate_kernel_calls(module)
    loop = next(frame.instruction for frame in frames if frame.instruction.opcode == "while")
    loop.proto.backend_config = json.dumps(config).encode() if said else b"{}"
    return takes_slices_apart(frames, 0)


def test_slices_of_a_step_each_are_apart() -> None:
    assert ask()
    assert ask(size=1, step=1, count=8)


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": 3},  # they overlap
        {"count": 5},  # the last one is moved to fit
        {"start": "other"},  # not the loop's variable
        {"starts": "zero, start"},  # along a dimension of 4, of which a slice takes 4
        {"starts": "start, start"},
        {"said": False},
    ],
)
def test_others_are_not(wrong: dict[str, object]) -> None:
    assert not ask(**wrong)  # type: ignore[arg-type]
