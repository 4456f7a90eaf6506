"""How a kernel call launches its Python kernel: the data to run it again from its own source."""

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from ligerdiag.compile.fields import (
    FieldError,
    Json,
    as_int,
    as_list,
    as_object,
    read_int,
    read_ints,
    read_list,
    read_object,
    read_str,
)

type Constant = bool | int | float | str | Mapping[str, str] | None
"""The value of a constexpr; `{"dtype": "fp32"}` stands for Triton's own dtype of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalar:
    """An argument of the kernel that is no array."""

    position: int
    """In the kernel's signature, 0-based."""
    type: str
    """Triton's name of its type, such as `i32`, `fp64`; a Python float is an fp64."""
    value: bool | int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLaunch:
    """One launch, as described by the payload of its custom call."""

    payload: str
    """Hexadecimal sha256 of the custom call's `backend_config`; "" where no custom call was to be found."""
    kernel: str
    """The kernel's function name."""
    module: str
    file: str
    """Path of the file that defines the kernel."""
    qualname: str
    source: str
    """Hexadecimal sha256 of the kernel's own lines; "" where they are not to be found."""
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


def compute_source_sha256(function: Any) -> str:
    """Hexadecimal sha256 of the function's own lines; "" where there are none to be found."""
    try:
        lines, _ = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return ""
    return sha256("".join(lines).encode()).hexdigest()


def parse_kernel_launches(items: list[object]) -> tuple[KernelLaunch, ...]:
    """Returns the records of a JSON array; FieldError when they are not what was expected."""
    return tuple(_parse_launch(as_object(item, "launch")) for item in items)


def _parse_launch(fields: Json) -> KernelLaunch:
    grid = read_ints(fields, "grid")
    if len(grid) != 3:
        raise FieldError(f"expected 3 sizes for `grid` but got {len(grid)}")
    return KernelLaunch(
        payload=read_str(fields, "payload"),
        kernel=read_str(fields, "kernel"),
        module=read_str(fields, "module"),
        file=read_str(fields, "file"),
        qualname=read_str(fields, "qualname"),
        source=read_str(fields, "source"),
        grid=(grid[0], grid[1], grid[2]),
        operands=read_int(fields, "operands"),
        outputs=read_int(fields, "outputs"),
        scalars=tuple(_parse_scalar(as_object(item, "scalar")) for item in read_list(fields, "scalars")),
        pointers=_parse_pointers(read_list(fields, "pointers")),
        constants={name: _parse_constant(name, value) for name, value in read_object(fields, "constants").items()},
        zeroed=read_ints(fields, "zeroed"),
        aliases=_parse_aliases(read_list(fields, "aliases")),
        trouble=read_str(fields, "trouble"),
    )


def render_kernel_launch(launch: KernelLaunch) -> Json:
    """Returns the record as a JSON object."""
    return {
        "payload": launch.payload,
        "kernel": launch.kernel,
        "module": launch.module,
        "file": launch.file,
        "qualname": launch.qualname,
        "source": launch.source,
        "grid": list(launch.grid),
        "operands": launch.operands,
        "outputs": launch.outputs,
        "scalars": [
            {"position": scalar.position, "type": scalar.type, "value": _render_number(scalar.value)}
            for scalar in launch.scalars
        ],
        "pointers": list(launch.pointers),
        "constants": {name: _render_number(value) for name, value in launch.constants.items()},
        "zeroed": list(launch.zeroed),
        "aliases": [list(pair) for pair in launch.aliases.items()],
        "trouble": launch.trouble,
    }


def _render_number(value: Constant) -> object:
    """JSON has no infinity and no NaN."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value


def _parse_scalar(fields: Json) -> Scalar:
    value = _parse_constant("value", fields.get("value"))
    if not isinstance(value, bool | int | float):
        raise FieldError(f"expected a number for `value` but got {value!r:.60}")
    return Scalar(position=read_int(fields, "position"), type=read_str(fields, "type"), value=value)


def _parse_pointers(items: list[object]) -> tuple[int | None, ...]:
    return tuple(None if item is None else as_int(item, "pointers") for item in items)


def _parse_constant(name: str, value: object) -> Constant:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    fields = as_object(value, name)
    if "float" in fields:
        text = read_str(fields, "float")
        if text not in ("inf", "-inf", "nan"):
            raise FieldError(f"expected no finite number for `{name}` but got {text!r:.60}")
        return float(text)
    return {"dtype": read_str(fields, "dtype")}


def _parse_aliases(items: list[object]) -> dict[int, int]:
    aliases: dict[int, int] = {}
    for item in items:
        pair = as_list(item, "alias")
        if len(pair) != 2:
            raise FieldError(f"expected an operand and an output for `aliases` but got {pair!r:.60}")
        aliases[as_int(pair[0], "aliases")] = as_int(pair[1], "aliases")
    return aliases
