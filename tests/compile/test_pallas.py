"""A Pallas-on-Triton program, compiled for a described GPU."""

import pytest

from ligerdiag.hlo.parse import load_hlo


@pytest.fixture(scope="module")
def pallas(compile_selected):
    results = compile_selected("pallas.py")
    for result in results.values():
        assert result.artifact is not None, result.error
    return {name: result.artifact for name, result in results.items()}


def test_the_compiled_program_has_the_kernel_and_the_call_does_not_declare_its_write(pallas) -> None:
    module, _ = load_hlo(pallas["step"].optimized)
    (call,) = [c for _, c in module.iterate_custom_calls() if c.proto.custom_call_target == "__gpu$xla.gpu.triton"]
    assert b"double_kernel" in call.proto.backend_config
    assert call.operand_output_aliases == {}


@pytest.mark.parametrize("case", ["step", "call_in_a_function"])
def test_a_call_whose_output_is_used_is_one_call_with_its_kernel_s_name(pallas, case: str) -> None:
    (call,) = pallas[case].kernel_calls
    assert (call.kernel, call.primitive, call.in_program) == ("double_kernel", "pallas_call", True)
    assert call.source.function == "double"


def test_a_call_only_for_its_effect_is_missing(pallas) -> None:
    (call,) = pallas["call_for_effect"].kernel_calls
    assert (call.kernel, call.in_program) == ("double_kernel", False)
