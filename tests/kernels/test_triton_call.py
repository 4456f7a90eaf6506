"""The StableHLO of each mode of a cross entropy of 2 x 8 logits shows what XLA knows about the write."""

import re

import lowerings
import numpy as np
import pytest

from kernels.modes import UNDECLARED, Mode
from kernels.triton_call import inplace_call


def get_kernel_call(text: str) -> str:
    (line,) = [line for line in text.splitlines() if "@triton_kernel_call" in line]
    return line


@pytest.mark.parametrize("mode", Mode)
def test_only_the_declared_modes_get_the_gradient_from_the_kernel(compiled, mode):
    results = get_kernel_call(compiled(lowerings.lower_cross_entropy, mode)).rpartition("->")[2]
    assert results.count("tensor<2xf32>") == 2
    assert results.count("tensor<2x8xf32>") == (0 if mode in UNDECLARED else 1)


@pytest.mark.parametrize("mode", Mode)
def test_only_the_aliased_mode_shares_the_bytes_of_the_logits_with_an_output(compiled, mode):
    call = get_kernel_call(compiled(lowerings.lower_cross_entropy, mode))
    aliases = re.findall(r"output_operand_alias<output_tuple_indices = \[(\d)\],\s*operand_index = (\d)", call)
    assert aliases == ([("2", "0")] if mode is Mode.ALIASED else [])


def test_the_hidden_gradient_is_the_argument_itself(compiled):
    text = compiled(lowerings.lower_cross_entropy, Mode.HIDDEN)
    (returned,) = re.findall(r"return %\w+, (%\w+) : tensor<f32>, tensor<2x8xf32>", text)
    assert returned == "%arg0"


def test_the_trivial_operations_come_after_the_kernel(compiled):
    after = compiled(lowerings.lower_cross_entropy, Mode.TRIVIAL).partition("@triton_kernel_call")[2]
    assert re.findall(r"stablehlo\.(add|subtract) .*tensor<2x8xf32>", after) == ["add", "subtract"]


def test_the_barrier_joins_logits_and_loss_after_the_kernel(compiled):
    after = compiled(lowerings.lower_cross_entropy, Mode.BARRIER).partition("@triton_kernel_call")[2]
    (types,) = re.findall(r"stablehlo\.optimization_barrier .*: (.*)", after)
    assert types == "tensor<2x8xf32>, tensor<2xf32>, tensor<2xf32>"


def test_a_missing_written_operand_is_refused():
    with pytest.raises(ValueError, match=r"in \[0, 1\) but got written=1"):
        inplace_call(None, np.zeros(3), written=1, outputs=(), grid=(1,), mode=Mode.ALIASED)
