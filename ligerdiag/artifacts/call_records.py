"""Records of an artifact beside its modules: how each kernel is launched, which readers can be tied to it, where
shards lie.

The placement of the shards of a program's inputs and outputs. Device numbers are the partition ids of the SPMD
module.
"""

import inspect
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from ligerdiag.codec import (
    FieldError,
    Json,
    as_int,
    as_list,
    as_object,
    encode_record,
    read_int,
    read_ints,
    read_list,
    read_object,
    read_record,
    read_str,
)
from ligerdiag.errors import CompileError
from ligerdiag.model.findings import SourceLine

type Range = tuple[int, int]
"""(start, stop) of one dimension, in elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """One array over the devices."""

    shape: tuple[int, ...]
    """The whole array's."""
    shards: tuple[tuple[Range, ...], ...]
    """For each device, by partition id, what it holds of each dimension; all of it where the array is replicated."""

    def __post_init__(self) -> None:
        """Raises FieldError where a shard is no part of the array."""
        for shard in self.shards:
            fits = len(shard) == len(self.shape)
            if not fits or any(not 0 <= a <= b <= n for (a, b), n in zip(shard, self.shape, strict=True)):
                raise FieldError(f"expected a part of {list(self.shape)} for `shards` but got {shard!r:.60}")


def compute_placements(
    shapes: Sequence[tuple[int, ...]], shardings: Sequence[Any], devices: Sequence[Any]
) -> tuple[Placement, ...]:
    """Placements of arrays of these shapes under `jax.sharding.Sharding`s; `devices` are in the order of partition ids.

    That order is the device assignment's: of the mesh, flattened. Raises CompileError where XLA has not said how an array is
    split, as without its partitioner.
    """
    return tuple(_compute_placement(s, sharding, devices) for s, sharding in zip(shapes, shardings, strict=True))


def _compute_placement(shape: tuple[int, ...], sharding: Any, devices: Sequence[Any]) -> Placement:
    shape = tuple(int(size) for size in shape)
    find_indices = getattr(sharding, "devices_indices_map", None)
    if find_indices is None:
        raise CompileError(f"XLA does not say how an array of shape {list(shape)} is split over the devices")
    indices = find_indices(shape)
    shards = tuple(
        tuple(_read_slice(part, size) for part, size in zip(indices[device], shape, strict=True)) for device in devices
    )
    return Placement(shape=shape, shards=shards)


def _read_slice(part: slice, size: int) -> Range:
    start, stop, _ = part.indices(size)
    return start, stop


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TieSite:
    """One use, after a kernel call, of a value that the kernel was given; see `readers`.

    Tags are those of the untied program, whatever is tied.
    """

    id: str
    """`<call>.<operand>:<reader>.<reader_operand>`, the tags of the calls `through` before the first: `9/40.0:12.1`."""
    kernel: str
    """The kernel's function name, the custom call's target where it has none."""
    call: int
    """Tag of the kernel's custom call."""
    operand: int
    """Of the kernel call, 0-based."""
    through: tuple[int, ...]
    """Tags of the function calls that lead from the reader's function to the kernel's; empty when it is the same."""
    reader: int
    """Tag of the operation that reads."""
    reader_operand: int
    """Of that operation, 0-based."""
    opcode: str
    """StableHLO's name of the operation."""
    shape: str
    """Of the value that is read, such as `f32[4,32]`."""
    source: SourceLine
    """The innermost frame of the reading operation outside of installed packages; file "" when there is none."""
    untieable: str = ""
    """The reason why no trivial operation can be put here; empty when one can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """All that were found in one program, in program order."""

    found: tuple[TieSite, ...] = ()
    trouble: str = ""
    """The reason why they were not looked for, or not found; empty when they are complete."""


def render_readers(readers: Readers) -> str:
    return json.dumps({"trouble": readers.trouble, "readers": encode_record(readers.found)}, indent=1) + "\n"


def parse_readers(fields: Json) -> Readers:
    """Returns the records of a JSON object; raises FieldError."""
    return Readers(found=read_record(tuple[TieSite, ...], fields, "readers"), trouble=read_str(fields, "trouble"))
