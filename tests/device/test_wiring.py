"""Which buffers of a call a compiled program shows, and which lie behind a copy that XLA added."""

import pytest

from ligerdiag.device.canary_runs import read_wiring
from ligerdiag.errors import CompileError
from tests.replay.xla_cpu import parse_text

HEAD = "HloModule m, is_scheduled=true\n"
PLAIN = """\
ENTRY e {
  canary = f32[4] parameter(0)
  x = f32[4] parameter(1)
  ROOT k = f32[4] custom-call(x), custom_call_target="k"
}"""
COPIED = """\
ENTRY e {
  canary.1 = f32[4] parameter(0)
  canary.2 = f32[4] parameter(1)
  x = f32[4] parameter(2)
  y = f32[4] parameter(3)
  z = f32[4] constant({1, 2, 3, 4})
  moved = f32[4] copy(x)
  k = (f32[4], f32[4]) custom-call(moved, y, z), custom_call_target="k", output_to_operand_aliasing={{1}: (0, {})}
  first = f32[4] get-tuple-element(k), index=0
  second = f32[4] get-tuple-element(k), index=1
  again = f32[4] copy(first)
  ROOT all = (f32[4], f32[4]) tuple(second, again)
}"""
CALLED = """\
inner {
  y = f32[4] parameter(0)
  x = f32[4] parameter(1)
  ROOT k = (f32[4], f32[4]) custom-call(x, y), custom_call_target="k"
}
ENTRY e {
  canary.1 = f32[4] parameter(0)
  canary.2 = f32[4] parameter(1)
  x = f32[4] parameter(2)
  y = f32[4] parameter(3)
  moved = f32[4] copy(x)
  called = (f32[4], f32[4]) call(y, moved), to_apply=inner
  first = f32[4] get-tuple-element(called), index=0
  second = f32[4] get-tuple-element(called), index=1
  ROOT all = (f32[4], f32[4]) tuple(second, first)
}"""


def test_a_call_alone_has_the_parameters_own_buffers() -> None:
    wiring = read_wiring(parse_text(HEAD + PLAIN), 1)
    assert (wiring.operands, wiring.is_own) == ((0,), (True,))
    assert (wiring.outputs, wiring.is_direct, wiring.aliases) == ((0,), (True,), {})


def test_a_buffer_behind_a_copy_is_not_the_calls_own() -> None:
    wiring = read_wiring(parse_text(HEAD + COPIED), 2)
    assert (wiring.operands, wiring.is_own) == ((0, 1, None), (False, True, False))
    assert (wiring.outputs, wiring.is_direct, wiring.aliases) == ((1, 0), (False, True), {0: 1})


def test_a_call_in_a_computation_that_the_entry_calls_is_followed() -> None:
    wiring = read_wiring(parse_text(HEAD + CALLED), 2)
    assert (wiring.operands, wiring.is_own) == ((0, 1), (False, True))
    assert (wiring.outputs, wiring.is_direct) == ((1, 0), (True, True))


def test_a_program_with_two_calls_shows_nothing() -> None:
    two = PLAIN.replace("  ROOT k", '  j = f32[4] custom-call(x), custom_call_target="j"\n  ROOT k')
    with pytest.raises(CompileError, match="XLA compiled a program with one kernel call to 2 custom calls"):
        read_wiring(parse_text(HEAD + two), 1)
