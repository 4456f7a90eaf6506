"""Kernel calls that are missing from a program, and the operands that each overwrites."""

import base64

import pytest

from ligerdiag.artifacts.artifact import KernelCall
from ligerdiag.effects.access import Access
from ligerdiag.effects.call import compute_call_effects


@pytest.fixture(scope="module")
def compiled(compile_selected):
    return compile_selected("vanished.py")


def calls_of(compiled, case_id: str) -> tuple[KernelCall, ...]:
    assert compiled[case_id].artifact is not None, compiled[case_id].error
    return compiled[case_id].artifact.kernel_calls


@pytest.mark.parametrize("name", ["rule_of_a_vjp", "rule_of_a_jvp", "remat"])
def test_a_function_replaced_by_its_rule_has_no_missing_call(compiled, name: str) -> None:
    calls = calls_of(compiled, name)
    assert calls
    assert [call for call in calls if not call.in_program] == []


def test_a_call_traced_only_for_its_shape_is_not_missing(compiled) -> None:
    (call,) = calls_of(compiled, "shape")
    assert call.in_program


@pytest.mark.parametrize("name", ["overwrites", "within_a_vjp"])
def test_a_missing_call_has_its_overwritten_operands(compiled, name: str) -> None:
    (call,) = calls_of(compiled, name)
    assert not call.in_program
    assert call.operand_used_later
    assert accesses_of(call) == (Access.READ_WRITE,)
    assert call.alone.declared == ()


def test_a_missing_call_may_only_read(compiled) -> None:
    (call,) = calls_of(compiled, "reads")
    assert not call.in_program
    assert accesses_of(call) == (Access.READ,)


def test_a_missing_call_has_its_declared_writes(compiled) -> None:
    (call,) = calls_of(compiled, "declares")
    assert not call.in_program
    assert call.alone.declared == (0,)


def accesses_of(call: KernelCall) -> tuple[Access, ...]:
    assert call.alone is not None
    return compute_call_effects(
        target=call.alone.target,
        backend_config=base64.b64decode(call.alone.config),
        operands=call.operands,
        outputs=call.outputs,
    ).operands
