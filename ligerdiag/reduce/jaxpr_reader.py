"""Reads a traced function, a jaxpr, as a `Program`. Runs in a worker.

Calls of functions (`jax.jit`, `custom_vjp`, `jax.checkpoint` and the like) are replaced by their bodies. Loops, branches and
`shard_map` keep their bodies.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from ligerdiag.compile.lowering.jax_versions import is_reference
from ligerdiag.compile.lowering.traced_calls import compute_kernel_name, list_jaxprs
from ligerdiag.reduce.expressions import (
    GIVES_TUPLE,
    write_expression,
    write_number,
    write_spec,
    write_value_dtype,
)
from ligerdiag.reduce.kernel_source import SourceCopier, UnwritableError
from ligerdiag.reduce.pallas_call_text import PallasCall, PallasCalls, write_pallas_call
from ligerdiag.reduce.program_text import print_function
from ligerdiag.reduce.reduced_program import (
    ArrayType,
    Body,
    Equation,
    Kind,
    Operand,
    Program,
    Variable,
    iterate_equations,
)
from ligerdiag.reduce.ref_text import OPERATIONS, write_ref_operation
from ligerdiag.reduce.triton_call_text import write_triton_call

_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
}
"""Maps the name of an operation that calls a function to the name of the parameter with the function."""
_LARGEST_CONSTANT = 64
"""Elements of the largest constant array that is written as Python."""


@dataclass(slots=True)
class JaxprReader:
    """Reads one jaxpr, and collects the definitions of its kernels."""

    copier: SourceCopier = field(default_factory=SourceCopier)
    pallas: PallasCalls = field(default_factory=PallasCalls)
    count: int = 0

    @property
    def definitions(self) -> dict[str, str]:
        """Returns the source of each kernel, and of the functions and constants that it uses, by name."""
        return self.copier.definitions

    @property
    def imports(self) -> list[str]:
        """Returns the import statements that the definitions and the calls of the kernels need."""
        return self.copier.imports

    def read(self, closed: Any, names: Sequence[str]) -> Body:
        """Returns the jaxpr as the body of a program. names: the names of the program's arguments."""
        jaxpr = closed.jaxpr
        parameters = tuple(
            Variable(name=name, type=read_type(var.aval)) for name, var in zip(names, jaxpr.invars, strict=True)
        )
        operands = [Operand(text=one.name, type=one.type) for one in parameters]
        equations: list[Equation] = []
        results = self._read_call(closed, operands, equations)
        return Body(parameters=parameters, equations=tuple(equations), results=tuple(results))

    def _read_call(self, closed: Any, operands: Sequence[Operand], equations: list[Equation]) -> list[Operand]:
        """Appends the equations of a jaxpr whose parameters are these operands; returns its results."""
        jaxpr = getattr(closed, "jaxpr", closed)
        scope: dict[Any, Operand] = dict(zip(jaxpr.invars, operands, strict=True))
        for var, value in zip(jaxpr.constvars, getattr(closed, "consts", ()), strict=False):
            scope[var] = self._read_constant(value, read_type(var.aval))
        used = {id(atom) for eqn in jaxpr.eqns for atom in eqn.invars} | {id(atom) for atom in jaxpr.outvars}
        for eqn in jaxpr.eqns:
            read = [self._read_atom(atom, scope) for atom in eqn.invars]
            name = str(eqn.primitive.name)
            inner = eqn.params.get(_CALLS.get(name, ""))
            call = self.pallas.find(eqn)
            if inner is not None and call is None:
                results = self._read_call(inner, read, equations)
                scope.update(zip(eqn.outvars, results, strict=True))
                continue
            if alias := _find_alias(name, read, eqn.outvars):
                scope[eqn.outvars[0]] = alias
                continue
            variables = tuple(self._define(var.aval) for var in eqn.outvars)
            if call is not None:
                equation = self._read_pallas_call(call, eqn, read, variables)
            else:
                equation = self._read_equation(eqn, read, variables)
            if equation.kind is Kind.STORE and not any(id(var) in used for var in eqn.outvars):
                equation = self._read_ref_operation(eqn, equation, is_read=False)
            equations.append(equation)
            scope.update(
                (var, Operand(text=one.name, type=one.type)) for var, one in zip(eqn.outvars, variables, strict=True)
            )
        return [self._read_atom(atom, scope) for atom in jaxpr.outvars]

    def _define(self, aval: Any) -> Variable:
        self.count += 1
        return Variable(name=f"t{self.count}", type=read_type(aval))

    def _read_atom(self, atom: Any, scope: Mapping[Any, Operand]) -> Operand:
        if hasattr(atom, "val"):
            return self._read_constant(atom.val, read_type(atom.aval))
        return scope[atom]

    def _read_constant(self, value: Any, kind: ArrayType) -> Operand:
        return Operand(text=write_constant(value, kind), type=kind, is_literal=True)

    def _read_equation(self, eqn: Any, operands: list[Operand], variables: tuple[Variable, ...]) -> Equation:
        name, params = str(eqn.primitive.name), eqn.params
        mark = "" if variables else f"e{self.count}"
        self.count += not variables
        plain = Equation(primitive=name, results=variables, operands=tuple(operands), mark=mark)
        match name:
            case "scan":
                return self._read_scan(params, plain)
            case "while":
                return self._read_while(params, plain)
            case "cond":
                bodies = [self._read_body(branch, operands[1:], ()) for branch in params["branches"]]
                return replace(plain, kind=Kind.SWITCH, operands=plain.operands[:1], bodies=tuple(bodies))
            case "shard_map":
                return self._read_shard_map(params, plain)
            case "triton_kernel_call":
                return self._read_triton_call(params, plain)
            case "program_id" | "num_programs":
                return replace(plain, text=f"pl.{name}({int(params['axis'])})")
            case _ if name in OPERATIONS:
                return self._read_ref_operation(eqn, plain)
            case _:
                text = write_expression(
                    eqn.primitive, params, [var.aval for var in eqn.invars], [var.aval for var in eqn.outvars]
                )
        kernel = _find_kernel_name(name, params)
        if not text or kernel:
            return replace(plain, kind=Kind.UNPRINTABLE, kernel=kernel, reason="has no form in `jnp` or `lax`")
        return replace(plain, text=text, gives_tuple=name in GIVES_TUPLE)

    def _read_body(self, closed: Any, free: Sequence[Operand], own: Sequence[Any]) -> Body:
        """Returns a body whose first parameters are operands of its surroundings; the others, given by their abstract
        values, are its own.
        """
        parameters = tuple(self._define(aval) for aval in own)
        operands = [*free, *(Operand(text=one.name, type=one.type) for one in parameters)]
        equations: list[Equation] = []
        results = self._read_call(closed, operands, equations)
        return Body(parameters=parameters, equations=tuple(equations), results=tuple(results))

    def _read_scan(self, params: Any, plain: Equation) -> Equation:
        if "num_consts" in params:
            constants, carried = int(params["num_consts"]), int(params["num_carry"])
        else:
            constants, carried, _ = (len(part) for part in params["ft_in"].unpack())
        closed = params["jaxpr"]
        own = [var.aval for var in getattr(closed, "jaxpr", closed).invars[constants:]]
        return replace(
            plain,
            kind=Kind.SCAN,
            bodies=(self._read_body(closed, plain.operands[:constants], own),),
            operands=plain.operands[constants:],
            carried=carried,
            length=int(params["length"]),
            reverse=bool(params["reverse"]),
        )

    def _read_while(self, params: Any, plain: Equation) -> Equation:
        first, second = int(params["cond_nconsts"]), int(params["body_nconsts"])
        free, state = plain.operands, plain.operands[first + second :]
        kinds = [var.aval for var in params["body_jaxpr"].jaxpr.invars[second:]]
        condition = self._read_body(params["cond_jaxpr"], free[:first], kinds)
        body = self._read_body(params["body_jaxpr"], free[first : first + second], kinds)
        return replace(plain, kind=Kind.WHILE, operands=state, bodies=(condition, body), carried=len(state))

    def _read_shard_map(self, params: Any, plain: Equation) -> Equation:
        closed = params["jaxpr"]
        inner = getattr(closed, "jaxpr", closed)
        inputs = tuple(write_spec(spec) for spec in params.get("in_specs", ()))
        outputs = tuple(write_spec(spec) for spec in params.get("out_specs", ()))
        mesh = params["mesh"]
        manual = params.get("newly_manual_axes", params.get("manual_axes", frozenset(mesh.axis_names)))
        if len(inputs) != len(plain.operands) or len(outputs) != len(plain.results) or "" in inputs + outputs:
            return replace(plain, kind=Kind.UNPRINTABLE, reason="has specs without a Python form")
        options = "" if set(manual) == set(mesh.axis_names) else f", axis_names={sorted(manual)!r}".replace("[", "{")
        options = options.replace("]", "}") + ("" if params.get("check_vma", True) else ", check_vma=False")
        body = self._read_body(closed, (), [var.aval for var in inner.invars])
        return replace(
            plain, kind=Kind.SHARD_MAP, bodies=(body,), input_specs=inputs, output_specs=outputs, options=options
        )

    def _read_ref_operation(self, eqn: Any, plain: Equation, *, is_read: bool = True) -> Equation:
        name = plain.primitive
        places = [one.text if one.is_literal else f"{{{number}}}" for number, one in enumerate(plain.operands)]
        try:
            text = write_ref_operation(name, eqn.params, places, is_read=is_read)
        except UnwritableError as fault:
            return replace(plain, kind=Kind.UNPRINTABLE, reason=str(fault))
        if name not in ("swap", "addupdate"):
            return replace(plain, text=text)
        if is_read and plain.results:
            return replace(plain, kind=Kind.STORE, text=text)
        return replace(plain, kind=Kind.STORE, text=text, results=(), mark=plain.label)

    def _read_pallas_call(
        self, call: PallasCall, eqn: Any, operands: list[Operand], variables: tuple[Variable, ...]
    ) -> Equation:
        names = [
            kernel
            for inner in iterate_operations(eqn.params["jaxpr"])
            if (kernel := _find_kernel_name(str(inner.primitive.name), inner.params))
        ]
        kernel = names[0] if names else ""
        plain = Equation(primitive=call.entry, results=variables, operands=tuple(operands), kernel=kernel)
        if not variables:
            self.count += 1
            plain = replace(plain, mark=f"e{self.count}")
        try:
            text, gives_tuple = write_pallas_call(call, self.copier, lambda: self._print_kernel(kernel, eqn))
        except UnwritableError as fault:
            return replace(plain, kind=Kind.UNPRINTABLE, reason=str(fault))
        return replace(plain, kind=Kind.KERNEL, text=text, gives_tuple=gives_tuple)

    def _print_kernel(self, name: str, eqn: Any) -> str | None:
        """Prints the kernel of a Pallas call from its jaxpr, and returns its name; None if an operation in it has no Python
        form.
        """
        calls = [one for one in iterate_operations(eqn.params["jaxpr"]) if one.primitive.name == "pallas_call"]
        if len(calls) != 1 or not name.isidentifier() or name in self.definitions:
            return None
        jaxpr = calls[0].params["jaxpr"]
        parameters = tuple(
            Variable(name=f"ref{number}", type=read_type(var.aval)) for number, var in enumerate(jaxpr.invars)
        )
        equations: list[Equation] = []
        reader = JaxprReader()
        reader._read_call(jaxpr, [Operand(text=one.name, type=one.type) for one in parameters], equations)
        body = Body(parameters=parameters, equations=tuple(equations), results=())
        if any(one.kind is Kind.UNPRINTABLE for one in iterate_equations(body)) or jaxpr.constvars:
            return None
        *lines, _ = print_function(Program(name=name, body=body, arguments=(), outputs=()))
        text = "\n".join(lines if len(lines) > 1 else (*lines, "    pass"))
        self.definitions[name] = f"{text}\n"
        self.imports.extend(
            ("import jax.numpy as jnp", "from jax import lax", "from jax.experimental import pallas as pl")
        )
        return name

    def _read_triton_call(self, params: Any, plain: Equation) -> Equation:
        kernel = compute_kernel_name(params)
        try:
            text = write_triton_call(params, len(plain.operands), self.copier)
        except UnwritableError as fault:
            return replace(plain, kind=Kind.UNPRINTABLE, kernel=kernel, reason=str(fault))
        return replace(plain, kind=Kind.KERNEL, kernel=kernel, text=text)


def iterate_operations(closed: Any) -> Iterator[Any]:
    """Yields all operations of a jaxpr, also those of the functions that it calls."""
    for eqn in getattr(closed, "jaxpr", closed).eqns:
        yield eqn
        for inner in list_jaxprs(eqn.params):
            yield from iterate_operations(inner)


def _find_alias(primitive: str, operands: Sequence[Operand], outvars: Sequence[Any]) -> Operand | None:
    """Returns the operand that the result of an operation equals, with the result's type: a value that only loses its weak
    type, a scalar that only gets another sharding, or a constant that only gets another dtype.
    """
    if primitive not in ("reshard", "convert_element_type", "stop_gradient"):
        return None
    kind = read_type(outvars[0].aval)
    if primitive == "convert_element_type" and operands[0].type.dtype == kind.dtype:
        return replace(operands[0], type=kind)
    if operands[0].type.shape or (primitive == "convert_element_type" and not operands[0].is_literal):
        return None
    return replace(operands[0], type=kind)


def _find_kernel_name(primitive: str, params: Any) -> str:
    """Returns the name of the kernel that an operation calls; empty if it calls none that may overwrite operands."""
    if primitive in ("pallas_call", "mpmd_map", "mgpu_call", "cuda_tile_call"):
        return compute_kernel_name(params) or primitive
    return primitive if primitive in ("ffi_call", "custom_partitioning", "pure_callback", "io_callback") else ""


def read_type(aval: Any) -> ArrayType:
    """Returns the shape and dtype of an abstract value. The dtype is empty for a value that is not an array."""
    shape = tuple(int(size) for size in getattr(aval, "shape", ()))
    return ArrayType(
        shape=shape,
        dtype=str(getattr(aval, "dtype", "")),
        weak=bool(getattr(aval, "weak_type", False)),
        is_ref=is_reference(aval),
    )


def write_constant(value: Any, kind: ArrayType) -> str:
    """Returns a constant as Python source: a number, or an array of `jnp`.

    For a large array, the source makes an array with other numbers than the constant.
    """
    array = np.asarray(value)
    if not array.shape:
        number = array.item()
        if isinstance(number, bool | int):
            text = repr(number)
        elif isinstance(number, float):
            short = float(str(array)) if array.dtype.kind == "f" and array.dtype.itemsize <= 8 else number
            text = write_number(short)
        else:
            text = repr(number)
        return text
    if prod(array.shape) <= _LARGEST_CONSTANT:
        return f"jnp.array({array.tolist()!r}, {write_value_dtype(kind.dtype)})".replace("nan", "jnp.nan")
    return f"jnp.asarray(np.random.default_rng(0).integers(0, 2, {array.shape}), {write_value_dtype(kind.dtype)})"
