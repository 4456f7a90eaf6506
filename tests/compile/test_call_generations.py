"""If a call was written for another generation of jax-triton, the error names the form that works with every version."""

import pytest

from ligerdiag.compile.lowering.kernel_faults import explain_generation


def triton_call(message: str, input_output_aliases: dict[int, int]) -> None:
    raise ValueError(message)


def catch(fault: BaseException) -> BaseException:
    try:
        raise fault
    except type(fault) as caught:
        return caught


@pytest.mark.parametrize(
    "fault",
    [
        TypeError("triton_call() missing 1 required keyword-only argument: 'out_shape'"),
        NotImplementedError("No state discharge rule implemented for primitive: triton_kernel_call"),
    ],
)
def test_the_error_for_a_later_version_s_call_names_the_installed_version(fault: Exception) -> None:
    said = explain_generation(catch(fault))
    assert said.startswith("(jax-triton before 0.4 takes `out_shape`, and no Ref; 0.3.1 is installed: ")
    assert "`ligerdiag.in_place.call_in_place` works with every version" in said


@pytest.mark.parametrize(("aliases", "told"), [({0: 1}, True), ({}, False)])
def test_an_extra_pointer_indicates_an_older_version_only_if_an_output_is_aliased(
    aliases: dict[int, int], told: bool
) -> None:
    with pytest.raises(ValueError, match="missing an argument") as caught:
        triton_call("out_type has 1 unaliased outputs, but 2 kernel parameters are missing an argument", aliases)
    assert explain_generation(caught.value).startswith("(since jax-triton 0.4 an aliased output is no") is told


def test_any_other_error_is_unchanged() -> None:
    assert explain_generation(catch(TypeError("unsupported operand"))) == ""


def test_an_incompatible_jax_triton_is_reported() -> None:
    fault = TypeError("_triton_kernel_call_dce_rule() takes 2 positional arguments but 3 were given")
    said = explain_generation(catch(fault))
    assert said.startswith("(jax-triton 0.3.1 does not fit JAX 0.11.2: ")
    assert explain_generation(catch(TypeError("mine() takes 2 positional arguments but 3 were given"))) == ""
