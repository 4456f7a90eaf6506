"""Represents a StableHLO module, read from a file or taken from a `jax.stages.Lowered`, as a program that a worker compiles.

JAX lowers a frame, a function with the same arguments and results that computes nothing; then the operations of the
module replace those of the frame. So JAX gives the frame devices, shardings and options of the compile, and XLA gets the
module as it was written, with its attributes, donations and meshes. The module is the program as written: a kernel call
that JAX dropped before it printed the module is in no report. The module does not show which version of an overwritten
value a derivative means; `analysis.evaluation.ambiguities` finds the outputs that are unknown for this reason.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from io import BytesIO
from math import prod
from typing import Any, Self

from jax.interpreters import mlir
from jaxlib.mlir import ir

from ligerdiag.compile.cases.arguments import make_unique
from ligerdiag.errors import CompileError, InputError, describe_fault
from ligerdiag.hlo.custom_calls import PARTITIONED
from ligerdiag.model.case import Arg, Case, Values

BYTECODE = b"ML\xefR"
"""First bytes of MLIR's bytecode."""
_PORTABLE = b"StableHLO_v"
"""Beginning of the name of the producer of bytecode that other versions of StableHLO can read, too."""
_TENSOR = re.compile(r"tensor<((?:\d+x)*)([\w<>]+)>")
_DTYPES = {
    "i1": "bool",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "bf16": "bfloat16",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
}
_WIDE = frozenset({"int64", "uint64", "float64", "complex128"})
_STEP = re.compile(r"\[<flat index (\d+)>\]|\[['\"](.*?)['\"]\]|\[([^\]]*)\]|\.(\w+)")
"""Matches one step of a path in a pytree, as `jax.tree_util.keystr` prints it."""
_MESH = re.compile(r'<\[((?:"\w+"=\d+(?:, )?)*)\]>')
_AXIS = re.compile(r'"(\w+)"=(\d+)')
_SHARDING = re.compile(r"#sdy\.sharding<(?:@\w+|mesh<[^>]*>), \[(.*?)\]>")
_DIMENSION = re.compile(r"\{([^}]*)\}")

type Partition = tuple[str | tuple[str, ...] | None, ...]
"""The axes over which each dimension of an array is split, as in `Arg.partition`."""


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class StableHloProgram:
    """A StableHLO module and the types of its entry function. A case has it instead of a Python function."""

    name: str
    module: bytes
    """The module, as text or as bytecode."""
    inputs: tuple[str, ...]
    """A name for each argument."""
    outputs: tuple[str, ...]
    """A name for each result."""
    results: tuple[tuple[tuple[int, ...], str], ...]
    """Shape and dtype of each result."""
    free: tuple[int, ...] = ()
    """Numbers of the arguments whose sharding XLA chooses."""
    partitions: tuple[Partition | None, ...] = ()
    """How each result is split over the mesh; None if XLA chooses."""
    is_sharded: bool = False
    """Whether the module is for several devices, with the meshes of Shardy."""

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, *args: Any) -> Any:
        """Returns zeros, with the shapes and dtypes of the results. The operations of the module later replace these
        zeros.
        """
        del args
        import jax.numpy

        library: Any = jax.numpy
        return tuple(library.zeros(shape, dtype) for shape, dtype in self.results)

    def name_arguments(self, count: int) -> list[str]:
        """Returns the names of the `count` arguments."""
        return list(self.inputs[:count])

    def free_specs(self, specs: Sequence[Any]) -> tuple[Any, ...]:
        """Returns the specs of the arguments. If XLA chooses the sharding of an argument, its spec has no sharding."""
        import jax

        return tuple(
            jax.ShapeDtypeStruct(spec.shape, spec.dtype) if number in self.free else spec
            for number, spec in enumerate(specs)
        )

    def place_results(self, mesh: Any) -> tuple[Any, ...]:
        """Returns the sharding of each result over the mesh. Returns None for a result whose sharding XLA chooses."""
        from jax.sharding import NamedSharding, PartitionSpec

        partitions = self.partitions if self.is_sharded else ((),) * len(self.results)
        return tuple(None if one is None else NamedSharding(mesh, PartitionSpec(*one)) for one in partitions)

    def fill(self, frame: Any) -> Self:
        """Replaces the operations of the frame, a function that computes nothing, by those of this module. Returns this
        program.

        frame: an `ir.Module` that JAX has lowered from this program, with the same types.
        """
        module = parse_stablehlo(self.module, frame.context)
        name = frame.operation.attributes["sym_name"]  # the names of XLA's dump files begin with it
        for operation in list(frame.body):
            operation.operation.erase()
        for operation in list(module.body):
            operation.operation.detach_from_parent()
            frame.body.append(operation)
        for one in _list_names(frame.operation.attributes):
            del frame.operation.attributes[one]
        for one in _list_names(module.operation.attributes):
            frame.operation.attributes[one] = module.operation.attributes[one]
        frame.operation.attributes["sym_name"] = name
        return self


def parse_stablehlo(data: bytes, context: Any) -> Any:
    """Parses a StableHLO module and returns it as an `ir.Module` in this context. Raises CompileError if jaxlib cannot
    parse it.

    data: text, bytecode, or a portable artifact of StableHLO.
    """
    try:
        with context:
            if data.startswith(BYTECODE) and data[5:].startswith(_PORTABLE):
                library: Any = import_module("jaxlib.mlir.dialects.stablehlo")
                return library.deserialize_portable_artifact(context, data)
            return ir.Module.parse(data if data.startswith(BYTECODE) else data.decode(), context=context)
    except Exception as fault:
        raise CompileError(f"jaxlib cannot parse the module as StableHLO: {_describe_parse(fault)}") from fault


def _describe_parse(fault: Exception) -> str:
    """Returns MLIR's first error, without the notes below it."""
    lines = [line.strip() for line in str(fault).splitlines() if line.strip()]
    said = [line.removeprefix("error: ") for line in lines if line.startswith("error:")]
    return said[0] if said else describe_fault(fault)


def read_stablehlo(name: str, data: bytes) -> Case:
    """Returns the case of a module, with arguments of the types of its function `main`. Raises CompileError if the
    module cannot be parsed, or has a form that ligerdiag does not compile.

    name: name of the case. data: as in `parse_stablehlo`.
    """
    make_context: Any = mlir.make_ir_context
    module = parse_stablehlo(data, make_context())
    return describe_module(name, module, data)


def take_lowered(lowered: Any, name: str = "") -> Case:
    """Returns the case of a `jax.stages.Lowered`. Raises InputError if the program was not lowered for NVIDIA GPUs, or
    has a form that ligerdiag does not compile.

    name: name of the case; by default that of the function.
    """
    module = lowered.compiler_ir("stablehlo")
    stream = BytesIO()
    module.operation.write_bytecode(stream)
    attributes = module.operation.attributes
    own = ir.StringAttr(attributes["sym_name"]).value if "sym_name" in attributes else "main"
    try:
        case = describe_module(name or own.removeprefix("jit_"), module, stream.getvalue())
    except CompileError as error:
        raise InputError(f"{error}: pass the original function instead") from error
    hoisted: Any = getattr(getattr(lowered, "_lowering", None), "const_args", None) or ()
    kept = tuple(_fix_values(arg, value) for arg, value in zip(case.args, hoisted, strict=False))
    return replace(case, args=(*kept, *case.args[len(kept) :]))


def _fix_values(arg: Arg, value: Any) -> Arg:
    """Returns the argument with the value of a constant that JAX has made an argument; unchanged if it does not fit."""
    import numpy as np

    array = np.asarray(value)
    is_same = array.shape == arg.shape and str(array.dtype) == arg.dtype
    return replace(arg, draw=Values(data=array.tobytes())) if is_same else arg


def describe_module(name: str, module: Any, data: bytes) -> Case:
    """Returns the case of a parsed module. Raises the CompileErrors of `read_stablehlo`.

    data: the module as bytes.
    """
    main = _find_main(module)
    _require_known(module)
    kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    arguments = list(main.regions[0].blocks[0].arguments)
    mesh = _read_mesh(module)
    taken = _list_attributes(main, "arg_attrs", len(arguments))
    given = _list_attributes(main, "res_attrs", len(kind.results))
    splits = [_read_partition(one) if mesh else () for one in taken]
    arrays = [_read_type(one.type, f"argument {number}") for number, one in enumerate(arguments)]
    results = tuple(_read_type(one, f"result {number}") for number, one in enumerate(kind.results))
    args = tuple(
        Arg(
            shape=shape,
            dtype=dtype,
            donate="tf.aliasing_output" in attributes or "jax.buffer_donor" in attributes,
            partition=split or (),
        )
        for (shape, dtype), attributes, split in zip(arrays, taken, splits, strict=True)
    )
    if mesh and all(split is None for split in splits):
        raise CompileError("the module is for several devices, but none of its arguments has a sharding")
    program = StableHloProgram(
        name=name,
        module=data,
        inputs=make_unique([_name_argument(one, number) for number, one in enumerate(arguments)]),
        outputs=make_unique([_name_result(one, number, len(given)) for number, one in enumerate(given)]),
        results=results,
        free=tuple(number for number, split in enumerate(splits) if split is None),
        partitions=tuple(_read_partition(one) if mesh else () for one in given) if mesh else (),
        is_sharded=bool(mesh),
    )
    return Case(name=name, function=program, args=args, mesh=mesh, keep_unused=True)  # it has the arguments that it has


def needs_wide_types(case: Case) -> bool:
    """Returns whether a result or an argument of the module has elements of 64 bits. JAX must then be set to allow
    them.
    """
    function: Any = case.function
    dtypes = {dtype for _, dtype in function.results} | {arg.dtype for arg in case.args}
    return not _WIDE.isdisjoint(dtypes)


def _list_names(attributes: Any) -> list[str]:
    """Returns the names of an operation's attributes; iteration yields names or named attributes, depending on the
    version of jaxlib.
    """
    return [one if isinstance(one, str) else one.name for one in (attributes[n] for n in range(len(attributes)))]


def _find_main(module: Any) -> Any:
    for view in module.body:
        operation = view.operation
        if operation.name == "func.func" and ir.StringAttr(operation.attributes["sym_name"]).value == "main":
            if not operation.regions[0].blocks:
                break
            return operation
    raise CompileError("the module has no function `main`, which is the function that XLA runs")


def _require_known(module: Any) -> None:
    """Raises CompileError if the module has a part that a compile from the module alone would not get right."""
    attributes = module.operation.attributes
    replicas = _read_number(attributes, "mhlo.num_replicas")
    if replicas > 1:
        raise CompileError(
            f"the module is for {replicas} replicas, as `jax.pmap` makes them: ligerdiag does not compile replicas"
        )
    if any(_is_call_of(operation, PARTITIONED) for operation in walk_operations(module.operation)):
        raise CompileError(
            "ligerdiag cannot compile a module with a `custom_partitioning`: its function exists only in the process "
            "that made the module"
        )


def _is_call_of(operation: Any, target: str) -> bool:
    return (
        operation.name == "stablehlo.custom_call"
        and ir.StringAttr(operation.attributes["call_target_name"]).value == target
    )


def walk_operations(operation: Any) -> Iterator[Any]:
    """Yields all operations in the regions of an MLIR operation, in program order."""
    for region in operation.regions:
        for block in region:
            for view in block:
                yield view.operation
                yield from walk_operations(view.operation)


def _read_number(attributes: Any, name: str) -> int:
    return ir.IntegerAttr(attributes[name]).value if name in attributes else 1


def _read_mesh(module: Any) -> Mapping[str, int]:
    """Returns the mesh for which the module is partitioned, axis name to size; empty for one device."""
    partitions = _read_number(module.operation.attributes, "mhlo.num_partitions")
    found = [str(view.operation.attributes["mesh"]) for view in module.body if view.operation.name == "sdy.mesh"]
    if partitions == 1:
        return {}
    meshes = {text: _MESH.search(text) for text in found}
    if not meshes:
        raise CompileError(
            f"the module is for {partitions} devices, but has no mesh of Shardy: ligerdiag needs the mesh"
        )
    read = [dict(_AXIS.findall(one[1])) for one in meshes.values() if one is not None]
    sizes = {tuple((axis, int(size)) for axis, size in one.items()) for one in read}
    if None in meshes.values() or len(sizes) != 1:
        raise CompileError(
            "ligerdiag cannot compile a module with meshes of different shapes, or with an explicit order of devices"
        )
    mesh = dict(next(iter(sizes)))
    if prod(mesh.values()) != partitions:
        raise CompileError(f"the module is for {partitions} devices, but its mesh has {prod(mesh.values())}")
    return mesh


def _list_attributes(main: Any, name: str, count: int) -> list[dict[str, Any]]:
    """Returns the attributes of each argument or result of a function. name: `arg_attrs` or `res_attrs`."""
    if name not in main.attributes:
        return [{} for _ in range(count)]
    found: list[dict[str, Any]] = []
    for one in ir.ArrayAttr(main.attributes[name]):
        entries: Any = ir.DictAttr(one)
        found.append({named.name: named.attr for named in (entries[number] for number in range(len(entries)))})
    return found


def _read_partition(attributes: Mapping[str, Any]) -> Partition | None:
    """Returns how an array is split over the mesh; None if its attributes do not say that, so that XLA chooses."""
    if "sdy.sharding" not in attributes:
        if "mhlo.sharding" in attributes:
            raise CompileError("ligerdiag cannot compile a module with a mesh of Shardy and shardings of GSPMD")
        return None
    text = str(attributes["sdy.sharding"])
    found = _SHARDING.fullmatch(text)
    if found is None or ":(" in text or "?" in text:
        raise CompileError(f"ligerdiag cannot read the sharding `{text}`")
    dimensions = [re.findall(r'"(\w+)"', one) for one in _DIMENSION.findall(found[1])]
    return tuple(tuple(axes) if len(axes) > 1 else axes[0] if axes else None for axes in dimensions)


def _read_type(kind: Any, place: str) -> tuple[tuple[int, ...], str]:
    """Returns shape and dtype of an array type. Raises CompileError for any other type, or one without fixed sizes."""
    found = _TENSOR.fullmatch(str(kind))
    dtype = "" if found is None else _name_dtype(found[2])
    if found is None or not dtype:
        raise CompileError(f"{place} of `main` has the type `{kind}`: expected an array of fixed sizes")
    return tuple(int(size) for size in found[1].split("x") if size), dtype


def _name_dtype(element: str) -> str:
    """Returns NumPy's or ml_dtypes' name of an MLIR element type; empty if there is none."""
    if element in _DTYPES:
        return _DTYPES[element]
    if found := re.fullmatch(r"(s|u|)i(\d+)", element):
        return f"{'u' if found[1] == 'u' else ''}int{found[2]}"
    return f"float{element[1:].lower().replace('e', '_e', 1)}" if re.fullmatch(r"f\dE\w+", element) else ""


def _name_argument(argument: Any, number: int) -> str:
    location: Any = argument.location
    name = getattr(location, "name_str", None) if type(location).__name__ == "NameLoc" else None
    if name is None:
        found = re.match(r'loc\("((?:[^"\\]|\\.)*)"(?!:\d)', str(location))
        name = found[1] if found else ""
    return _shorten_path(name) or f"arg{number}"


def _name_result(attributes: Mapping[str, Any], number: int, count: int) -> str:
    said = ir.StringAttr(attributes["jax.result_info"]).value if "jax.result_info" in attributes else ""
    return _shorten_path(said.removeprefix("result")) or ("output" if count == 1 else str(number))


def _shorten_path(text: str) -> str:
    """Returns the path of a leaf in a pytree as ligerdiag writes it: `params.w` for `params['w']`."""
    steps = ["".join(found.groups("")) for found in _STEP.finditer(text)]
    head = _STEP.sub("", text) if steps else text
    return ".".join(part for part in (head, *steps) if part)
