"""Prints a program as a case file, so that ligerdiag can judge it."""

from ligerdiag.reduce.program_text import print_function, print_head
from ligerdiag.reduce.reduced_program import Program, ReducedArgument, Variable

CASE_NAME = "reduced"


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
