"""A program as a list of equations that can be edited and printed as Python.

The worker makes it from a jaxpr (`jaxpr_reader`), `edits` makes smaller ones from it, and `program_text` prints it. Each
name is defined once in the whole program, nested bodies included. A body may use names of the bodies around it, except
the body of a `shard_map`, which sees its own parameters only.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import prod


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayType:
    """Shape and dtype of a value."""

    shape: tuple[int, ...]
    dtype: str
    """NumPy's or ml_dtypes' name, such as `float32`."""
    weak: bool = False
    """Whether JAX regards the dtype as that of a Python number."""
    is_ref: bool = False
    """Whether it is the type of a Ref, which holds such an array."""

    @property
    def elements(self) -> int:
        return prod(self.shape)

    def is_like(self, other: "ArrayType") -> bool:
        """Returns whether a value of this type can take the place of one of the other type."""
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
    """A name and the type of its value."""

    name: str
    type: ArrayType


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """A value that an equation reads: a variable, by its name, or a Python expression for a constant."""

    text: str
    type: ArrayType
    is_literal: bool = False


class Kind(StrEnum):
    """How an equation is printed and edited."""

    PLAIN = "plain"
    """An expression in its operands, `Equation.text`."""
    KERNEL = "kernel"
    """A call of a kernel; it may overwrite its operands, so it stays even if nobody reads its results."""
    STORE = "store"
    """Stores into a Ref; it stays even if nobody reads its result."""
    SCAN = "scan"
    """A loop over the leading dimension of its operands, with one body."""
    WHILE = "while"
    """A loop with a condition and a body, in this order."""
    SWITCH = "switch"
    """The first operand chooses one of the bodies, which have no parameters."""
    SHARD_MAP = "shard_map"
    """One body, which runs on each device's shards."""
    UNPRINTABLE = "unprintable"
    """Nobody knows how to write it as Python; only a program without it can be compiled again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Equation:
    """One operation of the program."""

    kind: Kind = Kind.PLAIN
    primitive: str
    """JAX's name of the operation."""
    results: tuple[Variable, ...]
    operands: tuple[Operand, ...]
    text: str = ""
    """Python expression with `{0}`, `{1}` for the operands; the empty text for a kind that is printed from its bodies."""
    gives_tuple: bool = False
    """Whether the value of the expression is a tuple even if there is one result."""
    bodies: tuple["Body", ...] = ()
    carried: int = 0
    """Number of the first operands that are the initial state of a loop; the first results are its final state."""
    length: int = 0
    """Number of iterations of a scan."""
    reverse: bool = False
    input_specs: tuple[str, ...] = ()
    """For a `shard_map`: the partition of each operand, such as `P("x")`."""
    output_specs: tuple[str, ...] = ()
    options: str = ""
    """For a `shard_map`: further arguments, such as `, check_vma=False`."""
    kernel: str = ""
    """Name of the kernel's function, for `KERNEL`."""
    mark: str = ""
    """A name for an equation without results."""
    reason: str = ""
    """For `UNPRINTABLE`: why it cannot be printed, as the rest of a sentence that begins with its name."""

    @property
    def label(self) -> str:
        """Returns a name for the equation: that of its first result, if it has one."""
        return self.results[0].name if self.results else self.mark

    @property
    def stays(self) -> bool:
        """Returns whether it may change something besides its results, so that it stays if nobody reads them."""
        return self.kind in (Kind.KERNEL, Kind.STORE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A list of equations with parameters and results: a program, or what a loop repeats."""

    parameters: tuple[Variable, ...]
    equations: tuple[Equation, ...]
    results: tuple[Operand, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomValues:
    """How the random values of an argument are drawn: the fields of `model.case.Draw`."""

    kind: str = "usual"
    scale: float = 1.0
    low: float = 0
    high: float = 2
    seed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducedArgument:
    """The facts about one parameter of the program besides its name and type."""

    values: RandomValues = field(default_factory=RandomValues)
    partition: str = ""
    """Its partition over the mesh as Python, such as `(None, "x")`; empty if there is none."""
    donated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A function with its arguments, its mesh and the definitions that its text needs."""

    name: str
    body: Body
    arguments: tuple[ReducedArgument, ...]
    """One for each parameter of the body."""
    outputs: tuple[str, ...]
    """The name that the original program gives to each result."""
    definitions: Mapping[str, str] = field(default_factory=dict[str, str])
    """From the name of a kernel to the Python source that defines it and what it uses, without imports."""
    imports: tuple[str, ...] = ()
    """The import statements that the definitions need."""
    mesh: Mapping[str, int] = field(default_factory=dict[str, int])
    explicit_axes: tuple[str, ...] = ()
    inputs: tuple[ArrayType, ...] = ()
    """Types of the arguments of the user's function, from which the program was traced."""


def iterate_bodies(body: Body) -> Iterator[Body]:
    """Yields the body and all bodies inside of it."""
    yield body
    for equation in body.equations:
        for inner in equation.bodies:
            yield from iterate_bodies(inner)


def iterate_equations(body: Body) -> Iterator[Equation]:
    """Yields all equations of the body and of the bodies inside of it."""
    for one in iterate_bodies(body):
        yield from one.equations


def iterate_operands(body: Body) -> Iterator[Operand]:
    """Yields everything that the body reads, also in the bodies inside of it."""
    for one in iterate_bodies(body):
        for equation in one.equations:
            yield from equation.operands
        yield from one.results


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Size:
    """How large a program is; a reduction never makes it larger."""

    equations: int
    arguments: int
    outputs: int
    elements: int
    """Elements of all values of the program."""

    def __str__(self) -> str:
        counts = f"{self.equations} operations, {self.arguments} arguments, {self.outputs} outputs"
        return f"{counts}, {self.elements} elements"


def compute_size(program: Program) -> Size:
    """Returns the size of a program: the smaller of two has fewer equations, then fewer arguments."""
    equations = list(iterate_equations(program.body))
    variables = [*program.body.parameters, *(result for one in equations for result in one.results)]
    return Size(
        equations=len(equations),
        arguments=len(program.body.parameters),
        outputs=len(program.body.results),
        elements=sum(one.type.elements for one in variables),
    )


def substitute(body: Body, values: Mapping[str, Operand]) -> Body:
    """Returns the body in which every read of one of these names reads the given operand."""

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
    """Returns the operand that reads the variable."""
    return Operand(text=variable.name, type=variable.type)
