"""A launch of a kernel in Triton's own interpreter, from Python source."""

from collections.abc import Mapping
from dataclasses import dataclass

type Constant = bool | int | float | str | Mapping[str, str] | None
"""The value of a constexpr; `{"dtype": "fp32"}` means Triton's dtype of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """An argument of the kernel that is not an array."""

    position: int
    """In the kernel's signature, 0-based."""
    type: str
    """Triton's name of its type, such as `i32`, `fp64`; a Python float is an fp64."""
    value: bool | int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLaunch:
    """One launch, as described by the payload of its custom call."""

    payload: str
    """Hexadecimal sha256 of the custom call's `backend_config`; "" if no custom call was found."""
    kernel: str
    """The kernel's function name."""
    module: str
    file: str
    """Path of the file that defines the kernel."""
    qualname: str
    source: str
    """Hexadecimal sha256 of the kernel's own lines; "" if they were not found."""
    grid: tuple[int, int, int]
    operands: int
    outputs: int
    scalars: tuple[Scalar, ...]
    """By position."""
    pointers: tuple[int | None, ...]
    """For each operand, then each output, the position of its pointer in the kernel's signature; None for an output that is
    written through the operand that it shares its bytes with."""
    constants: Mapping[str, Constant]
    """Name of a parameter to its value at compile time."""
    zeroed: tuple[int, ...]
    """Numbers of the outputs that the launcher sets to zero first."""
    aliases: Mapping[int, int]
    """operand_number to the output number that shares its buffer, as jax-triton's `input_output_aliases` says in every
    call with this payload."""
    trouble: str = ""
    """The reason why it cannot be run again, in one line; then only `payload` and `kernel` are reliable."""
