"""The Triton kernels of a compiled program as text, for the tools of others."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ligerdiag.artifacts.artifact import load_artifact
from ligerdiag.effects.call import parse_configurations
from ligerdiag.effects.libtriton import parse_module as parse_kernel
from ligerdiag.effects.libtriton import print_module
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.parse import parse_module
from ligerdiag.hlo.xla_pb2 import HloProto


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelText:
    """A kernel of one call."""

    function: str
    ttir: str
    undeclared: tuple[int, ...]
    """Numbers of the kernel's parameters that get an operand of the call which no output aliases."""


def list_kernels(artifact: Path) -> tuple[KernelText, ...]:
    """Returns the kernels of all calls in the optimized module of an artifact, of an autotuned call the first one.

    Raises ArtifactError if the artifact or a payload cannot be read.
    """
    proto = HloProto.FromString(load_artifact(artifact).optimized.read_bytes())
    calls = parse_module(proto.hlo_module).iterate_custom_calls()
    return tuple(kernel for _, call in calls for kernel in _read_kernels(call))


def _read_kernels(call: HloInstruction) -> Iterator[KernelText]:
    for one in islice(parse_configurations(*call.kernel), 1):
        if not one.mlir:
            continue
        parsed, context = parse_kernel(one.mlir)
        count = len(call.operands)
        places = [n for n, parameter in enumerate(one.parameters) if parameter.is_buffer] if one.parameters else None
        numbers = [n for n in range(count) if n not in call.operand_output_aliases]
        undeclared = tuple(numbers if places is None else (places[n] for n in numbers))
        yield KernelText(function=one.function, ttir=print_module(parsed), undeclared=undeclared)
        del context  # it has to outlive the module
