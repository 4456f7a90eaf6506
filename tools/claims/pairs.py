"""Reads pairs of modules: the input of XLA, and its optimized module with the buffer assignment."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from ligerdiag.hlo.xla_pb2 import HloInstructionProto, HloProto

_NAMES = (("optimized.hlo.pb", "unoptimized.hlo.pb"), ("*after_optimizations.hlo.pb", "*before_optimizations.hlo.pb"))
"""File names in an artifact, and in XLA's dumps."""
_KERNELS = ("triton", "pallas", "mosaic")


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """One compilation that mutations change."""

    name: str
    optimized: HloProto
    program: HloProto

    def copy(self) -> "Pair":
        """Returns an independent copy."""
        copies = [HloProto(), HloProto()]
        for made, proto in zip(copies, self.protos, strict=True):
            made.CopyFrom(proto)
        return Pair(self.name, copies[0], copies[1])

    @property
    def protos(self) -> tuple[HloProto, HloProto]:
        """Returns both modules."""
        return self.optimized, self.program

    def choose_sides(self, random: Random) -> tuple[HloProto, ...]:
        """Returns one module or both."""
        return random.choice(((self.optimized,), (self.program,), self.protos))


def load_pair(folder: Path) -> Pair:
    """Returns the last module of a folder. Raises StopIteration if the folder has no pair."""
    found = next(
        (optimized[-1], program[-1])
        for after, before in _NAMES
        if (optimized := sorted(folder.glob(after))) and (program := sorted(folder.glob(before)))
    )
    protos = [HloProto(), HloProto()]
    for proto, path in zip(protos, found, strict=True):
        proto.ParseFromString(path.read_bytes())
    return Pair(folder.name, protos[0], protos[1])


def list_instructions(proto: HloProto) -> list[HloInstructionProto]:
    """Returns all instructions of a module, callees first."""
    return [one for computation in proto.hlo_module.computations for one in computation.instructions]


def iterate_kernel_calls(proto: HloProto) -> Iterator[HloInstructionProto]:
    """Yields the custom calls that carry a kernel."""
    for one in list_instructions(proto):
        if one.opcode == "custom-call" and any(word in one.custom_call_target for word in _KERNELS):
            yield one


def choose_some[A](random: Random, items: list[A]) -> list[A]:
    """Returns one, a few, half or all of them."""
    count = random.choice((1, 1, 1, 3, len(items) // 2, len(items)))
    return random.sample(items, min(max(count, 1), len(items)))
