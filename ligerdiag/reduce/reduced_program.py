"""Represents a program as a list of equations that can be edited and printed as Python.

The worker makes it from a jaxpr (`jaxpr_reader`), `edits` makes smaller ones from it, and `program_text` prints it. Each
name is defined once in the whole program, nested bodies included. A body may use names of the bodies around it, except
the body of a `shard_map`, which sees its own parameters only.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import prod

from ligerdiag.model.case import Draw


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayType:
    """The shape and the dtype of a value."""

    shape: tuple[int, ...]
    dtype: str
    """Name of the dtype in NumPy or ml_dtypes, such as `float32`."""
    weak: bool = False
    """Whether the value has JAX's weak type, as a Python number has."""
    is_ref: bool = False
    """Whether the value is a Ref to an array of this type."""

    @property
    def elements(self) -> int:
        return prod(self.shape)

    def is_like(self, other: "ArrayType") -> bool:
        """Returns whether a value of this type can replace a value of the type `other`."""
        return (self.shape, self.dtype, self.is_ref) == (other.shape, other.dtype, other.is_ref)

    def __str__(self) -> str:
        return f"{_SHORT.get(self.dtype, self.dtype)}[{','.join(map(str, self.shape))}]"


_SHORT = {
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    **{f"{sign}int{bits}": f"{'u' if sign else 's'}{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "bfloat16": "bf16",
    "bool": "pred",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """The name and the type of one value of the program."""

    name: str
    type: ArrayType


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """A value that an equation reads: the name of a variable, or a Python expression for a constant."""

    text: str
    type: ArrayType
    is_literal: bool = False


class Kind(StrEnum):
    """The kind of an equation. It decides how the equation is printed and edited."""

    PLAIN = "plain"
    """An expression of its operands, `Equation.text`."""
    KERNEL = "kernel"
    """A call of a kernel. It may overwrite its operands, so it stays even if its results are never read."""
    STORE = "store"
    """A store into a Ref. It stays even if its result is never read."""
    SCAN = "scan"
    """A loop over the leading dimension of its operands, with one body."""
    WHILE = "while"
    """A loop with a condition and a body, in this order."""
    SWITCH = "switch"
    """A conditional: the first operand chooses one of the bodies, which have no parameters."""
    SHARD_MAP = "shard_map"
    """A `shard_map`, with one body that runs on each device's shards."""
    UNPRINTABLE = "unprintable"
    """An operation that cannot be written as Python; the program can be compiled again only without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Equation:
    """An equation of the program: one operation with its operands and results."""

    kind: Kind = Kind.PLAIN
    primitive: str
    """JAX's name of the operation."""
    results: tuple[Variable, ...]
    operands: tuple[Operand, ...]
    text: str = ""
    """Python expression with `{0}`, `{1}` for the operands; empty for a kind that is printed from its bodies."""
    gives_tuple: bool = False
    """Whether the value of the expression is a tuple even if there is only one result."""
    bodies: tuple["Body", ...] = ()
    carried: int = 0
    """Number of values in a loop's state, n: the first n operands are the initial state, and the first n results are the
    final state.
    """
    length: int = 0
    """Number of iterations of a scan."""
    reverse: bool = False
    input_specs: tuple[str, ...] = ()
    """For a `shard_map`: the partition of each operand, such as `P("x")`."""
    output_specs: tuple[str, ...] = ()
    options: str = ""
    """For a `shard_map`: the text of further arguments, such as `, check_vma=False`."""
    kernel: str = ""
    """Name of the kernel's function, for `KERNEL`."""
    mark: str = ""
    """A name that identifies an equation without results."""
    reason: str = ""
    """For `UNPRINTABLE`: the reason, as the end of a sentence that begins with the name of the operation."""

    @property
    def label(self) -> str:
        """Returns a name that identifies the equation.

        It is the name of the first result, or the field `mark` if the equation has no results.
        """
        return self.results[0].name if self.results else self.mark

    @property
    def stays(self) -> bool:
        """Returns whether the equation must stay in the program even if nothing reads its results.

        This is so for a kernel call and for a store into a Ref.
        """
        return self.kind in (Kind.KERNEL, Kind.STORE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A list of equations with parameters and results: a whole program, or the body of a loop or branch."""

    parameters: tuple[Variable, ...]
    equations: tuple[Equation, ...]
    results: tuple[Operand, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducedArgument:
    """The values, the partition and the donation of one argument of the program."""

    values: Draw = field(default_factory=Draw)
    partition: str = ""
    """The partition of the parameter over the mesh, as Python text such as `(None, "x")`; empty if the parameter has none.
    """
    donated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A whole program: a function with its arguments, its mesh, and the definitions that the function uses."""

    name: str
    body: Body
    arguments: tuple[ReducedArgument, ...]
    """The properties of each parameter of the body, in order."""
    outputs: tuple[str, ...]
    """The name that the original program gives to each result."""
    definitions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Maps the name of each kernel to its Python source, which includes the functions and constants that the kernel uses,
    and no imports.
    """
    imports: tuple[str, ...] = ()
    """The import statements that the definitions need."""
    mesh: Mapping[str, int] = field(default_factory=dict[str, int])
    explicit_axes: tuple[str, ...] = ()
    inputs: tuple[ArrayType, ...] = ()
    """Types of the arguments of the user's function, from which the program was traced."""


def iterate_bodies(body: Body) -> Iterator[Body]:
    """Yields the body and all bodies nested in it."""
    yield body
    for equation in body.equations:
        for inner in equation.bodies:
            yield from iterate_bodies(inner)


def iterate_equations(body: Body) -> Iterator[Equation]:
    """Yields all equations of the body and of the bodies nested in it."""
    for one in iterate_bodies(body):
        yield from one.equations


def iterate_operands(body: Body) -> Iterator[Operand]:
    """Yields every operand that is read in the body and in the bodies nested in it."""
    for one in iterate_bodies(body):
        for equation in one.equations:
            yield from equation.operands
        yield from one.results


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Size:
    """The size of a program. No step of a reduction makes it larger."""

    equations: int
    arguments: int
    outputs: int
    elements: int
    """Number of elements of all values of the program."""

    def __str__(self) -> str:
        counts = f"{self.equations} operations, {self.arguments} arguments, {self.outputs} outputs"
        return f"{counts}, {self.elements} elements"


def compute_size(program: Program) -> Size:
    """Returns the size of a program. Sizes compare by the number of equations, then by the number of arguments."""
    equations = list(iterate_equations(program.body))
    variables = [*program.body.parameters, *(result for one in equations for result in one.results)]
    return Size(
        equations=len(equations),
        arguments=len(program.body.parameters),
        outputs=len(program.body.results),
        elements=sum(one.type.elements for one in variables),
    )


def substitute(body: Body, values: Mapping[str, Operand]) -> Body:
    """Returns the body with operands in place of names.

    Each read of a name that is a key of `values` becomes a read of the operand that `values` has for it.
    """

    def read(operand: Operand) -> Operand:
        seen: set[str] = set()
        while not operand.is_literal and operand.text in values and operand.text not in seen:
            seen.add(operand.text)
            operand = values[operand.text]
        return operand

    def change(one: Body) -> Body:
        return replace(
            one,
            equations=tuple(
                replace(
                    equation,
                    operands=tuple(map(read, equation.operands)),
                    bodies=tuple(map(change, equation.bodies)),
                )
                for equation in one.equations
            ),
            results=tuple(map(read, one.results)),
        )

    return change(body)


def read_variable(variable: Variable) -> Operand:
    """Returns an operand that reads the variable."""
    return Operand(text=variable.name, type=variable.type)
