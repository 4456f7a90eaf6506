"""Finds values that go through `x + s - s`, where `s` depends on the kernel, and the outputs that they reach."""

import pytest

from tests.analysis.compiled import Compiler, Program

type Programs = dict[str, Program]


@pytest.fixture(scope="session")
def workarounds(compiler: Compiler) -> Programs:
    return compiler.compile("workarounds.py")


def rounded_outputs(program: Program) -> list[tuple[str, ...]]:
    return [finding.outputs for finding in program.inspection.findings if finding.rule == "LD012"]


@pytest.mark.parametrize(
    ("name", "outputs"),
    [
        ("added_and_subtracted", ("back",)),
        ("added_by_rows", ("back",)),
        ("in_a_loop", ("total",)),
        ("in_an_inner_jit", ("back",)),
    ],
)
def test_a_workaround_is_found_once_with_the_outputs_that_it_reaches(
    name: str, outputs: tuple[str, ...], workarounds: Programs
) -> None:
    assert rounded_outputs(workarounds[name]) == [outputs]


@pytest.mark.parametrize("name", ["subtracts_another", "adds_an_argument", "subtracted_from", "added_to_another_value"])
def test_arithmetic_with_an_effect_or_without_a_kernel_is_not_a_workaround(name: str, workarounds: Programs) -> None:
    assert rounded_outputs(workarounds[name]) == []
