"""Prints a reduced program as a Python file that does not need ligerdiag.

The file runs the program compiled by XLA, and compares the result with that of the same operations run one by one, in
program order.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ligerdiag.reduce.program_text import print_function, print_head
from ligerdiag.reduce.reduced_program import Program, ReducedArgument, Variable
from ligerdiag.reduce.symptom import Symptom, SymptomKind
from ligerdiag.source_text import strip_folders

_TOLERANCE = {"bfloat16": 5e-2, "float16": 1e-2, "float32": 1e-3, "float64": 1e-6}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionOrigin:
    """The case and the finding from which a reduced program comes. The first lines of its file describe them."""

    case: str
    target: str
    toolchain: str
    versions: str
    symptom: Symptom
    errors: tuple[float, ...] = ()
    """The relative error of each output in a replay of the schedule on the CPU; empty if it was not replayed."""
    wrong: tuple[bool, ...] = ()
    """For each output, whether the replay shows that it is wrong."""


def print_file(program: Program, origin: ReductionOrigin) -> str:
    """Returns the text of a Python file that runs the program and compares its results."""
    is_sharded = bool(program.mesh)
    extra = ["import jax.numpy as jnp", "import numpy as np"]
    extra += (
        ["from jax.sharding import NamedSharding", "from jax.sharding import PartitionSpec as P"] if is_sharded else []
    )
    return (
        f'"""{_describe(program, origin)}\n"""\n\n'
        + print_head(program, extra)
        + "\n\n"
        + "\n".join(print_function(program))
        + "\n\n\n"
        + "\n".join(_print_arguments(program))
        + "\n\n\n"
        + "\n".join(_print_main(program, origin))
        + "\n"
    )


def _describe(program: Program, origin: ReductionOrigin) -> str:
    said = strip_folders(origin.symptom.describe())
    text = f"The smallest form found of `{origin.case}` in which {_PREFIX[origin.symptom.kind]}{said}."
    text = "\n".join(textwrap.wrap(text, 100)) + f"\n\nCompiled for {origin.target} with {origin.versions}."
    if origin.errors:
        errors = ", ".join(f"{error:.2g}" for error in origin.errors)
        text += f"\nRelative error of each output when this schedule is computed on the CPU: {errors}."
    return f"{text}\n\n{textwrap.fill(f'It needs {_name_devices(program)}. {_describe_check(program, origin)}', 100)}"


def _describe_check(program: Program, origin: ReductionOrigin) -> str:
    """Returns a sentence on what the file checks. It promises a failure only if the replay has a wrong output."""
    if origin.symptom.kind is SymptomKind.ERROR:
        return "It only compiles the program."
    if _is_about_copies(origin.symptom):
        return "It asserts that XLA adds no copy, which should fail there."
    compares = "It compares the compiled program with the same operations one after the other"
    tolerance = _find_tolerance(program)
    if any(wrong and not error < tolerance for wrong, error in zip(origin.wrong, origin.errors, strict=True)):
        return f"{compares}, which should fail there."
    if origin.symptom.is_lucky and not any(origin.wrong):
        return (
            f"{compares}. This schedule runs the read on the right side of the kernel, though nothing forces that order, so"
            " no wrong number can be shown: the file fails only if XLA makes another schedule there."
        )
    if origin.errors or origin.symptom.is_lucky:
        return f"{compares}. In this schedule no output is known to be wrong: it fails only if XLA makes another one there."
    return f"{compares}."


def _is_about_copies(symptom: Symptom) -> bool:
    return not symptom.kernel and bool(symptom.cause)


def _name_devices(program: Program) -> str:
    count = prod(program.mesh.values())
    return "a GPU" if count == 1 else f"{count} GPUs"


_PREFIX = {
    SymptomKind.FINDING: "a static analysis of XLA's schedule reports ",
    SymptomKind.ERROR: "XLA ends with ",
    SymptomKind.DISAGREEMENT: "",
    SymptomKind.TOOLCHAINS: "",
}


def _print_arguments(program: Program) -> Sequence[str]:
    lines = ["def make_arguments():", '    """Returns the arguments as NumPy arrays, always the same ones."""']
    lines.append("    random = np.random.default_rng(0)")
    lines.append("    return (")
    for variable, argument in zip(program.body.parameters, program.arguments, strict=True):
        lines.append(f"        {_draw(variable, argument)},  # {variable.name}")
    lines.append("    )")
    return lines


def _draw(variable: Variable, argument: ReducedArgument) -> str:
    kind, values = variable.type, argument.values
    dtype = "jnp.bool_" if kind.dtype == "bool" else f"jnp.{kind.dtype}"
    if kind.dtype == "bool":
        share = values.scale if values.kind == "bernoulli" else 0.5
        return f"random.random({kind.shape}) < {share}"
    if "int" in kind.dtype:
        low, high = (int(values.low), int(values.high)) if values.kind == "randint" else (0, 2)
        return f"random.integers({low}, {high}, {kind.shape}).astype({dtype})"
    draw = f"random.standard_normal({kind.shape})"
    if values.kind == "uniform":
        draw = f"random.uniform({values.low}, {values.high}, {kind.shape})"
    if values.kind == "zeros":
        draw = f"np.zeros({kind.shape})"
    if values.kind == "squares":
        draw = f"random.standard_normal({kind.shape}) ** 2"
    if values.scale != 1 and values.kind in ("normal", "squares"):
        draw = f"({values.scale} * {draw})"
    return f"np.asarray({draw}, {dtype})"


def _print_main(program: Program, origin: ReductionOrigin) -> Sequence[str]:
    donated = tuple(number for number, one in enumerate(program.arguments) if one.donated)
    jit = f"jax.jit({program.name}, keep_unused=True{f', donate_argnums={donated}' if donated else ''})"
    lines = ["def main():"]
    fresh = "[jnp.asarray(one) for one in make_arguments()]"
    place = fresh
    if program.mesh:
        sizes, names = tuple(program.mesh.values()), tuple(program.mesh)
        kinds = ", ".join(
            f"jax.sharding.AxisType.{'Explicit' if name in program.explicit_axes else 'Auto'}" for name in names
        )
        lines.append(f"    mesh = jax.make_mesh({sizes}, {names}, axis_types=({kinds},))".replace("'", '"'))
        specs = ", ".join(_print_spec(one.partition) for one in program.arguments)
        lines.append(f"    specs = [{specs}]")
        place = "[jax.device_put(one, NamedSharding(mesh, spec)) for one, spec in zip(make_arguments(), specs)]"
    lines += [f"    compiled = {jit}", f"    arrays = {place}"]
    if origin.symptom.kind is SymptomKind.ERROR:
        lines += _in_mesh(program, ["compiled.lower(*arrays).compile()"])
        return [*lines, *_print_end(program)]
    if _is_about_copies(origin.symptom):
        lines += _in_mesh(program, ["text = compiled.lower(*arrays).compile().as_text()"])
        lines += [
            "    copies = [line.strip() for line in text.splitlines() if _is_copy(line)]",
            '    assert not copies, "XLA copies:\\n" + "\\n".join(copies)',
        ]
        return [*_IS_COPY, *lines, *_print_end(program)]
    lines.append("    with jax.disable_jit():  # one operation after the other: program order")
    if _needs_mesh(program):
        lines[-1] = "    with jax.disable_jit(), jax.set_mesh(mesh):  # one operation after the other: program order"
    lines.append(f"        intended = jax.device_get({program.name}(*{fresh}))")
    lines += _in_mesh(program, ["actual = jax.device_get(compiled(*arrays))"])
    lines += [
        "    for number, (got, wanted) in enumerate(zip(jax.tree.leaves(actual), jax.tree.leaves(intended))):",
        "        got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)",
        "        differ = ~((got == wanted) | (np.isnan(got) & np.isnan(wanted)))",
        "        difference = np.subtract(got, wanted, where=differ, out=np.zeros_like(got))",
        "        error = np.linalg.norm(difference) / max(np.linalg.norm(wanted[np.isfinite(wanted)]), 1e-30)",
        f'        assert error < {_find_tolerance(program)}, f"output {{number}} has a relative error of {{error:.2g}}"',
    ]
    return [*lines, *_print_end(program)]


def _print_end(program: Program) -> Sequence[str]:
    count = prod(program.mesh.values())
    too_few = 'jax.default_backend() != "gpu"' + (f" or jax.device_count() < {count}" if count > 1 else "")
    return (
        *("", "", 'if __name__ == "__main__":', f"    if {too_few}:"),
        f'        raise SystemExit("this program needs {_name_devices(program)}")',
        "    main()",
    )


_IS_COPY = (
    "def _is_copy(line):",
    '    """Whether a line of the optimized HLO copies a value."""',
    '    return " copy(" in line or " copy-start(" in line',
    "",
    "",
)


def _needs_mesh(program: Program) -> bool:
    text = "\n".join(print_function(program))
    return bool(program.mesh) and ("shard_map" in text or "P(" in text)


def _in_mesh(program: Program, lines: Sequence[str]) -> Sequence[str]:
    if not program.mesh:
        return [f"    {line}" for line in lines]
    return ["    with jax.set_mesh(mesh):", *[f"        {line}" for line in lines]]


def _print_spec(partition: str) -> str:
    return f"P{partition.replace(',)', ')')}" if partition else "P()"


def _find_tolerance(program: Program) -> float:
    dtypes = {one.type.dtype for one in (*program.body.parameters, *program.body.results)}
    return max((_TOLERANCE.get(one, 0.0) for one in dtypes), default=1e-3) or 1e-3
