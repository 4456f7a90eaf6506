"""Prints a program as Python: a function of `jnp` and `lax`, one operation in each line, alone or in a case file that
ligerdiag can judge.
"""

import re
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ligerdiag.reduce.reduced_program import (
    Body,
    Equation,
    Kind,
    Operand,
    Program,
    ReducedArgument,
    Variable,
    iterate_equations,
    iterate_operands,
)

WIDTH = 120
_OPERATOR = re.compile(r"^(-|~)?\{\d\}( (\*\*|[-+*/@&|^]|[=!<>]=|[<>]) \{\d\})?$")
_INDENT = "    "
_TAKES_NUMBERS = (
    "jnp.full(",
    "jnp.where(",
    "jnp.maximum(",
    "jnp.minimum(",
    "lax.dynamic_slice(",
    "lax.dynamic_update_slice(",
)
"""Functions whose result has the dtype of their arrays, or a dtype of its own, if they get Python's numbers."""
_SHORT = re.compile(r"^\{0\}(\.T|\[[^\]]*\]|\.reshape\([^\[\]]*\)|\.astype\([\w.]*\))$")
CASE_NAME = "reduced"


@dataclass(slots=True)
class _Printer:
    """Prints one program."""

    uses: Mapping[str, int]
    inlined: dict[str, str] = field(default_factory=dict[str, str])
    """From the name of a value that is read once, by an expression, to the text that takes its place."""
    names: dict[str, str] = field(default_factory=dict[str, str])
    bodies: int = 0

    def print_body(self, body: Body, indent: str) -> Iterator[str]:
        """Yields the printed lines of the equations, each with this indentation."""
        for equation in body.equations:
            yield from self._print_equation(equation, indent)

    def write(self, operand: Operand, *, is_typed: bool = True) -> str:
        """Returns an operand as Python source. is_typed: whether a number must have the operand's own dtype."""
        if not operand.is_literal:
            return self.inlined.get(operand.text) or self.name(operand.text)
        if operand.type.shape or not is_typed or operand.text.startswith("jnp.array") or not operand.type.dtype:
            return operand.text
        return f"jnp.{'bool_' if operand.type.dtype == 'bool' else operand.type.dtype}({operand.text})"

    def name(self, name: str) -> str:
        """Returns the printed name of a variable. Values that are computed get numbers in order."""
        if name not in self.names:
            is_numbered = name[0] == "t" and name[1:].isdigit()
            self.names[name] = f"t{sum(one[0] == 't' for one in self.names)}" if is_numbered else name
        return self.names[name]

    def _print_equation(self, equation: Equation, indent: str) -> Iterator[str]:
        text = ""
        match equation.kind:
            case Kind.PLAIN | Kind.KERNEL | Kind.STORE:
                text = self._fill(equation)
                if self._is_inlined(equation):
                    self.inlined[equation.results[0].name] = text
                    return
            case Kind.SCAN:
                body = yield from self._print_function(equation.bodies[0], indent, loop=equation)
                initial = self._group([self.write(one) for one in equation.operands[: equation.carried]])
                xs = self._group([self.write(one) for one in equation.operands[equation.carried :]])
                words = ", reverse=True" if equation.reverse else ""
                length = f", length={equation.length}" if xs == "None" else ""
                text = f"lax.scan({body}, {initial}, {xs}{length}{words})"
                final = self._group([self.name(one.name) for one in equation.results[: equation.carried]], "_")
                ys = self._group([self.name(one.name) for one in equation.results[equation.carried :]], "_")
                yield f"{indent}{final}, {ys} = {text}"
                return
            case Kind.WHILE:
                condition = yield from self._print_function(equation.bodies[0], indent, is_state=True)
                body = yield from self._print_function(equation.bodies[1], indent, is_state=True)
                text = f"lax.while_loop({condition}, {body}, {self._pack(equation.operands)})"
                yield f"{indent}{self._group([self.name(one.name) for one in equation.results], '_')} = {text}"
                return
            case Kind.SWITCH:
                names: list[str] = []
                for one in equation.bodies:
                    names.append((yield from self._print_function(one, indent)))
                text = f"lax.switch({self.write(equation.operands[0])}, [{', '.join(names)}])"
            case Kind.SHARD_MAP:
                body = yield from self._print_function(equation.bodies[0], indent)
                inputs, outputs = (_tuple(specs) for specs in (equation.input_specs, equation.output_specs))
                outputs = equation.output_specs[0] if len(equation.output_specs) == 1 else outputs
                given = ", ".join(self.write(one) for one in equation.operands)
                text = f"jax.shard_map({body}, in_specs={inputs}, out_specs={outputs}{equation.options})({given})"
            case Kind.UNPRINTABLE:
                text = f"<{equation.primitive}>"
        target = ", ".join(self.name(one.name) for one in equation.results)
        if equation.gives_tuple and len(equation.results) == 1:
            target += ","
        line = f"{indent}{target} = {text}" if target else f"{indent}{text}"
        yield from _wrap(line, indent)

    def _is_inlined(self, equation: Equation) -> bool:
        """Whether the expression is so short, and read once, that its text takes the place of its name."""
        if len(equation.results) != 1 or any(one.type.is_ref for one in equation.operands):
            return False  # a read of a Ref has its place among the stores
        (result,) = equation.results
        return self.uses.get(result.name) == 1 and bool(_SHORT.match(equation.text))

    def _fill(self, equation: Equation) -> str:
        is_operator = bool(_OPERATOR.match(equation.text))
        has_variable = any(not one.is_literal for one in equation.operands)
        is_typed = equation.stays or not (is_operator and has_variable)
        if equation.text.startswith(_TAKES_NUMBERS):
            is_typed = False
        texts: list[str] = []
        for operand in equation.operands:
            text = self.write(operand, is_typed=is_typed)
            texts.append(text if not text.startswith("-") or not is_operator else f"({text})")
        return equation.text.format(*texts)

    def _print_function(
        self, body: Body, indent: str, *, loop: Equation | None = None, is_state: bool = False
    ) -> Generator[str, None, str]:
        """Yields the lines of a nested function; returns its name."""
        self.bodies += 1
        name = f"body{self.bodies}"
        inner = indent + _INDENT
        names = [self.name(one.name) for one in body.parameters]
        results = [self.write(one) for one in body.results]
        if loop is not None:
            carry, xs = names[: loop.carried], names[loop.carried :]
            first = carry[0] if len(carry) == 1 else "carry" if carry else "_"
            second = xs[0] if len(xs) == 1 else "xs" if xs else "_x"
            yield f"{indent}def {name}({first}, {second}):"
            if len(carry) > 1:
                yield f"{inner}{', '.join(carry)} = carry"
            if len(xs) > 1:
                yield f"{inner}{', '.join(xs)} = xs"
        elif is_state:
            first = names[0] if len(names) == 1 else "state"
            yield f"{indent}def {name}({first}):"
            if len(names) > 1:
                yield f"{inner}{', '.join(names)} = state"
        else:
            yield f"{indent}def {name}({', '.join(names)}):"
        yield from self.print_body(body, inner)
        results = [self.write(one) for one in body.results]  # after the equations, which may be inlined
        if loop is not None:
            new, ys = self._group(results[: loop.carried]), self._group(results[loop.carried :])
            yield f"{inner}return {new}, {ys}"
        else:
            yield f"{inner}return {results[0] if len(results) == 1 else _tuple(results)}"
        return name

    def _group(self, names: Sequence[str], nothing: str = "None") -> str:
        if not names:
            return nothing
        return names[0] if len(names) == 1 else f"({', '.join(names)})"

    def _pack(self, operands: Sequence[Operand]) -> str:
        return self._group([self.write(one) for one in operands])


def _tuple(parts: Sequence[str]) -> str:
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _wrap(line: str, indent: str) -> Iterator[str]:
    """Yields the line; a long call of a kernel becomes several lines."""
    if len(line) <= WIDTH or not line.endswith(")") or "(" not in line:
        yield line
        return
    opening = line.index("(")
    yield line[: opening + 1]
    inner = indent + _INDENT
    part = inner
    for piece in _split(line[opening + 1 : -1]):
        if len(part) + len(piece) > WIDTH and part.strip():
            yield part.rstrip()
            part = inner
        part += f"{piece}, "
    yield part.rstrip().removesuffix(",") + ")"


def _split(text: str) -> Iterator[str]:
    """Yields the parts of a list of arguments."""
    depth, part = 0, ""
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            yield part.strip()
            part = ""
        else:
            part += letter
    yield part.strip()


def count_uses(body: Body) -> Counter[str]:
    """Returns how often each name is read in the body and in the bodies inside of it."""
    return Counter(one.text for one in iterate_operands(body) if not one.is_literal)


def print_function(program: Program) -> tuple[str, ...]:
    """Returns the printed lines of the function that JAX traces, which has all operations of the program."""
    printer = _Printer(uses=count_uses(program.body))
    names = [printer.name(one.name) for one in program.body.parameters]
    lines = [f"def {program.name}({', '.join(names)}):"]
    lines += printer.print_body(program.body, _INDENT)
    results = [printer.write(one) for one in program.body.results]
    lines.append(f"{_INDENT}return {results[0] if len(results) == 1 else _tuple(results)}")
    return tuple(lines)


def print_head(program: Program, extra: Sequence[str] = ()) -> str:
    """Returns the text of the file's first part: the imports of the program, and its kernels.

    extra: additional import statements.
    """
    needed = list_needed(program)
    function = "\n".join(print_function(program))
    imports = {"import jax"}
    imports |= {"import jax.numpy as jnp"} if "jnp." in function else set()
    imports |= {"import numpy as np"} if re.search(r"\bnp\.", function) else set()
    imports |= {"from jax import lax"} if "lax." in function else set()
    imports |= {"from jax.sharding import PartitionSpec as P"} if re.search(r"\bP\(", function) else set()
    blocks = [program.definitions[name] for name in needed]
    text = "\n".join((function, *blocks))
    imports |= {line for line in program.imports if re.search(rf"\b{line.split()[-1].split('.')[0]}\b", text)}
    constants = "".join(block for block in blocks if "\n" not in block.rstrip())
    functions = [block for block in blocks if "\n" in block.rstrip()]
    head = "\n".join(_sort_imports(imports | set(extra)))
    return "\n".join([head, "", *([constants] if constants else []), *(f"\n{block}" for block in functions)])


def list_needed(program: Program) -> tuple[str, ...]:
    """Returns the names of the definitions that the program's kernels need, in the order in which they must be defined."""
    used = "\n".join(one.text for one in iterate_equations(program.body) if one.kind is Kind.KERNEL)
    needed = {name for name in program.definitions if re.search(rf"(?<![\w.]){name}\b(?!=)", used)}
    while True:
        text = "\n".join(program.definitions[name] for name in needed)
        more = {name for name in program.definitions if re.search(rf"\b{name}\b", text)} - needed
        if not more:
            return tuple(name for name in program.definitions if name in needed)
        needed |= more


def _sort_imports(lines: set[str]) -> list[str]:
    plain = sorted(line for line in lines if line.startswith("import "))
    return [*plain, *sorted(line for line in lines if not line.startswith("import "))]


def print_case(program: Program) -> str:
    """Returns the text of a case file with this program."""
    arguments = "".join(
        f"    {_print_argument(*one)},\n" for one in zip(program.body.parameters, program.arguments, strict=True)
    )
    mesh = f",\n    mesh={dict(program.mesh)!r}" if program.mesh else ""
    axes = f",\n    explicit_axes={program.explicit_axes!r}" if program.explicit_axes else ""
    extra = ("from ligerdiag.model.case import Arg, Case, Draw",)
    return (
        f"{print_head(program, extra)}\n\n"
        + "\n".join(print_function(program))
        + f'\n\n\nARGUMENTS = (\n{arguments})\nCASE = Case(\n    name="{CASE_NAME}",\n    function={program.name},\n'
        + f"    args=ARGUMENTS{mesh}{axes},\n)\n"
    )


def _print_argument(variable: Variable, argument: ReducedArgument) -> str:
    values, kind = argument.values, variable.type
    draw = (
        f"kind={values.kind!r}, scale={values.scale!r}, low={values.low!r}, high={values.high!r}, seed={values.seed!r}"
    )
    words = f"shape={kind.shape!r}, dtype={kind.dtype!r}, draw=Draw({draw})"
    words += f", partition={argument.partition}" if argument.partition else ""
    words += ", donate=True" if argument.donated else ""
    words += ", weak=True" if kind.weak else ""
    return f"Arg({words})"
