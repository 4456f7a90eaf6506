"""Writes programs as the Python source of a case file that needs no other file.

The program and its reference are one text: `compute(plain, ...)` runs kernels or, with `plain`, their formulas in jnp,
after which a name means the overwritten value. With `plain`, a `call` returns the new values of its parameters, and a
`shard_map` is a `vmap`.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.fuzz.programs import COLUMNS, KERNELS, PALLAS, POLICIES, REFS, Body, RandomProgram, Step, Variable

OPERATIONS = {
    "tanh": "jnp.tanh({0})",
    "scale": "{0} * {c}",
    "shift": "{0} + {c}",
    "flip": "{0}[::-1]",
    "roll": "jnp.roll({0}, 3, 0)",
    "centre": "{0} - {0}.mean(1, keepdims=True)",
    "softmax": "jax.nn.softmax({0}, axis=1) * 4",
    "leaky": "jnp.where({0} > 0, {0}, {0} * {c})",
    "halves": "jnp.concatenate([{0}[{half}:], {0}[:{half}]])",
    "update": "jax.lax.dynamic_update_slice({0}, {0}[:1] * {c}, (1, 0))",
    "sort": "jnp.sort({0}, axis=1)",
    "cumsum": "jnp.cumsum({0}, axis=0) * 0.3",
    "take": "{0}[jnp.arange({rows}) * 3 % {rows}]",
    "moving": "jax.lax.dynamic_slice_in_dim(jnp.concatenate([{0}, {0}]), ({0}[0, 0] > 0).astype(jnp.int32) + 1, {rows})",
    "pad": "jnp.pad({0}[:, :{left}], ((0, 0), ({left}, 0)))",
    "reshape": "{0}.reshape(-1)[::-1].reshape({rows}, {columns})",
    "normalise": "{0} * jax.lax.rsqrt(({0} * {0}).mean(1, keepdims=True) + 1)",
    "stop": "jax.lax.stop_gradient({0}) * {c}",
    "transpose": "{0}.T",
    "cast": "{0}.astype(jnp.{dtype})",
    "top": "{0}[{quarter}:{quarter} + {half}]",
    "strided": "{0}[::2]",
    "fold": "{0}[:{half}] + {0}[{half}:]",
    "split": "jnp.split({0}, 2)",
    "join": "jnp.concatenate([{0}, {1}])",
    "sum": "({0} + {1}) * {c}",
    "multiply": "{0} * {1} * {c}",
    "maximum": "jnp.maximum({0}, {1} * {c})",
    "select": "jnp.where({0} > {1}, {0}, {1} * {c})",
    "outer": "jnp.dot({0}.T, {1}, preferred_element_type=jnp.float32) * {root}",
    "psum": 'jax.lax.psum({0}, "d") * 0.5',
    "permute": 'jax.lax.ppermute({0}, "d", [(i, (i + 1) % {devices}) for i in range({devices})])',
    "gather": 'jax.lax.all_gather({0}, "d", tiled=True)',
    "scatter": 'jax.lax.psum_scatter({0}, "d", tiled=True)',
    "squash": "squash(plain, {0}{mode})",
}
"""Word of a step to its Python expression."""

_MOVES = (
    "flip",
    "roll",
    "halves",
    "take",
    "moving",
    "pad",
    "reshape",
    "transpose",
    "cast",
    "top",
    "strided",
    "split",
    "join",
)
"""Steps that only move values, so that they take 8-bit values without a cast."""
_EIGHT_BITS = "float8_e4m3fn"
_LAYOUTS = {"rows": 'P("d", None)', "columns": 'P(None, "d")', "whole": "P()"}
_PARTITIONS = {"rows": '("d", None)', "columns": '(None, "d")', "whole": "()"}
_PALLAS = "from jax.experimental import pallas as pl\nfrom jax.experimental.pallas import triton as pallas_triton\n"
_DRAWS = 1_000_000_007
"""Distance between the seeds of two draws of one argument."""
_HEAD = """import inspect
from functools import partial

import jax
import jax.numpy as jnp
import jax_triton
import triton
import triton.language as tl
{pallas}from jax.sharding import PartitionSpec as P

from ligerdiag.in_place import call_in_place
from ligerdiag.model.case import Arg, Case, Draw
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The properties of a program that the source of its steps depends on."""

    devices: int
    scale: int
    is_mixed: bool = False
    """Whether no branch depends on the form of a value, such as a product of a column and a row."""

    @property
    def columns(self) -> int:
        return COLUMNS * self.scale

    def shape(self, value: Variable) -> tuple[int, int]:
        return value.kind.rows * self.scale, self.columns


def render_case_file(programs: Sequence[RandomProgram], about: str, *, reference: bool = True) -> str:
    """Returns the source of a file that defines the programs as cases `fuzz[SEED]`.

    about: its docstring. reference: whether the cases have a reference.
    """
    functions = [_render_program(program) for program in programs]
    body = "\n\n".join(functions)
    cases = "\n".join(_render_case(program, reference=reference) for program in programs)
    parts = "\n\n".join(_find_parts(body))
    head = _HEAD.format(pallas=_PALLAS if "pl." in parts else "")
    return f'"""{about}"""\n\n{head}\n\n{parts}\n\n{body}\n\nCASES = (\n{cases}\n)\n'


def _find_parts(body: str) -> Iterator[str]:
    """Yields the functions of kernels.py.txt that the text uses, with those that they use, in the file's order."""
    text = Path(__file__).with_name("kernels.py.txt").read_text(encoding="utf-8")
    parts = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    lines = text.splitlines()
    wanted, found = set(_names(body)) & parts.keys(), set[str]()
    while wanted:
        name = wanted.pop()
        found.add(name)
        wanted |= (set(_names(_cut(lines, parts[name]))) & parts.keys()) - found
    for name, node in parts.items():
        if name in found:
            yield _cut(lines, node) + "\n"


def _cut(lines: Sequence[str], node: ast.FunctionDef) -> str:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return "\n".join(lines[first - 1 : node.end_lineno])


def _names(text: str) -> Iterator[str]:
    return (node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name))


def _render_program(program: RandomProgram) -> str:
    names = _name(program.block.parameters)
    sizes = Sizes(devices=program.devices, scale=program.scale, is_mixed=program.seed >= REFS)
    lines = [
        f"def {_name_function(program)}(plain, {names}):",
        *_indent(_render_block(program.block, sizes)),
    ]
    outputs = [f'"v{value.number}": v{value.number}.astype(jnp.float32)' for value in program.block.results]
    lines += _indent([f"outputs = {{{', '.join(outputs)}}}"])
    norm = "sum((1 + 0.3 * n) * (value * value).mean() for n, value in enumerate(outputs.values()))"
    lines += _indent([f'return outputs | {{"norm": {norm}, "total": total}}'])
    return "\n".join(lines) + "\n"


def _name_function(program: RandomProgram) -> str:
    return f"compute_{program.seed}" + (f"_{program.variant}" if program.variant else "")


def _render_case(program: RandomProgram, *, reference: bool) -> str:
    args: list[str] = []
    sizes = Sizes(devices=program.devices, scale=program.scale)
    for position, value in enumerate(program.block.parameters):
        words = [f"shape={sizes.shape(value)}", f'dtype="{value.kind.dtype}"']
        words += [f"draw=Draw(seed={program.seed * 4 + position + program.draw * _DRAWS})"]
        words += ["donate=True"] if position in program.donated else []
        words += [f"partition={_PARTITIONS[program.layouts[position]]}"] if program.devices > 1 else []
        args.append(f"            Arg({', '.join(words)}),")
    name = _name_function(program)
    lines = [
        "    Case(",
        '        name="fuzz",',
        f"        function=partial({name}, False),",
        *([f"        reference=partial({name}, True),"] if reference else []),
        f"        params=({program.seed},{f' {program.variant},' if program.variant else ''}),",
        "        args=(",
        *args,
        "        ),",
        *([f'        mesh={{"d": {program.devices}}},'] if program.devices > 1 else []),
        "    ),",
    ]
    return "\n".join(lines)


def _render_block(block: Body, sizes: Sizes) -> list[str]:
    """Returns the lines of a function's body without its return; `total` sums the kernels' results, so that JAX keeps
    them."""
    lines = ["total = jnp.float32(0)"]
    for step in block.steps:
        lines += _render_step(step, sizes)
    return lines


def _render_step(step: Step, sizes: Sizes) -> list[str]:
    if step.word in KERNELS:
        return _render_kernel(step, sizes)
    match step.word:
        case "product":
            x, *factors = map(_wide, step.inputs)
            return [
                f"{_name(step.outputs)} = {', '.join(f'{x} @ {y} * {1 / sizes.columns**0.5:.3f}' for y in factors)}"
            ]
        case "annotate":
            x = f"{_name(step.inputs)} * {_constant(step)}"
            constrained = f"jax.lax.with_sharding_constraint({x}, {_LAYOUTS[step.mode]})"
            return [f"{_name(step.outputs)} = {x} if plain else {constrained}"]
        case "loss":
            x = _name(step.inputs)
            words = ", ".join(f'"{word}"' for word in step.mode.split(":"))
            return [f"loss, {x} = find_loss(plain, {x}, {words})", "total = total + loss"]
        case "layer":
            return _render_layer(step)
        case "weigh":
            return [f"total = total + jnp.cos({_wide(step.inputs[0])} * {_constant(step)}).sum() * 0.05"]
        case "descent":
            return _render_descent(step, sizes)
        case "ref_loop":
            return _render_ref_loop(step, sizes)
        case "scan" | "map" | "vmap" | "while" | "cond":
            return _CONTROL[step.word](step, sizes)
        case "call":
            return _render_call(step, sizes)
        case "gradient":
            return _render_gradient(step, sizes)
        case "shard_map":
            return _render_shard_map(step, sizes)
        case word:
            return [f"{_name(step.outputs)} = {_fill(OPERATIONS[word], step, sizes)}"]


def _fill(template: str, step: Step, sizes: Sizes) -> str:
    kinds = {value.kind.dtype for value in step.inputs}
    is_narrow = kinds == {_EIGHT_BITS} and step.word not in _MOVES
    operands = [f"v{value.number}" if len(kinds) == 1 and not is_narrow else _wide(value) for value in step.inputs]
    if is_narrow and step.outputs[0].kind.dtype == _EIGHT_BITS:
        template = f"({template}).astype(jnp.{_EIGHT_BITS})"
    rows = step.inputs[0].kind.rows * sizes.scale
    return template.format(
        *operands,
        c=_constant(step),
        rows=rows,
        half=rows // 2,
        quarter=rows // 4,
        columns=sizes.columns,
        left=sizes.columns // 2,
        root=f"{1 / sizes.columns**0.5:.3f}",
        dtype=step.outputs[0].kind.dtype,
        devices=sizes.devices,
        mode=f', "{step.mode}"' if step.mode else "",
    )


def _render_kernel(step: Step, sizes: Sizes) -> list[str]:
    written = step.inputs if step.word == "turn" else step.inputs[:1]
    function = "overwrite_by_pallas" if step.word in PALLAS else "overwrite"
    words = ["plain", f"{step.word}_kernel", f"{step.word}_formula", *(f"v{value.number}" for value in step.inputs)]
    words += ["written=2"] if len(written) == 2 else []
    words += [f'mode="{step.mode}"'] if step.mode != "hidden" else []
    words += ["one_program=True"] if step.word == "carry" else []
    sums = f"sums{step.outputs[0].number}"
    return [
        f"{sums}, ({_name(written)},) = {function}({', '.join(words)})",
        f"total = total + {sums}.sum() * {0.01 + step.outputs[0].number % 7 * 0.003:.3f}",
        f"{_name(step.outputs)} = jnp.outer({sums} / {sizes.columns}, jnp.cos(jnp.arange({sizes.columns})))",
    ]


def _define(name: str, block: Body, sizes: Sizes, result: str, parameters: str = "") -> list[str]:
    parameters = parameters or _name(block.parameters)
    return [f"def {name}({parameters}):", *_indent([*_render_block(block, sizes), f"return {result}"])]


def _function(step: Step, position: int = 0) -> str:
    block = step.blocks[position]
    first = block.parameters[0].number if block.parameters else step.outputs[0].number
    return f"{step.word.replace('while', 'loop')}_{first}"


def _predicate(step: Step, value: Variable, sizes: Sizes) -> str:
    """Returns a comparison of two elements that differs in each step: no outer branch decides an inner one."""
    row, column = step.numbers[0] % 8, step.numbers[1] % COLUMNS
    one, other = f"v{value.number}[{row}, {column}]", f"v{value.number}[{7 - row}, {COLUMNS - 1 - column}]"
    return f"jnp.sin(({one} - {other}).astype(jnp.float32) * 9) > 0" if sizes.is_mixed else f"{one} > {other}"


def _stack(step: Step, value: Variable) -> str:
    # JAX squeezes a batch of one before a Pallas kernel, which then overwrites the squeezed copy
    length = 2 + step.numbers[1] % 2 if step.word == "vmap" else 1 + step.numbers[1] % 3
    return f"jnp.stack([v{value.number} * ({_constant(step)} + 0.2 * i) for i in range({length})])"


def _render_scan(step: Step, sizes: Sizes) -> list[str]:
    (block,), name = step.blocks, _function(step)
    carry, y = block.results
    words = ["", "", ", reverse=True", ", unroll=2"][step.numbers[0] % 4]
    # if both were one value, an unrolled loop would overwrite it as the next iteration's state
    stacked_each = f"v{y.number} * {_constant(step)}" if y == carry else f"v{y.number}"
    x, xs = step.inputs
    initial, (last, stacked) = f"v{x.number} * {_constant(step)}", step.outputs
    return [
        *_define(name, block, sizes, f"v{carry.number}, ({stacked_each}, total)"),
        f"v{last.number}, (stacked, totals) = jax.lax.scan({name}, {initial}, {_stack(step, xs)}{words})",
        f"v{stacked.number}, total = stacked.mean(0), total + totals.sum()",
    ]


def _render_map(step: Step, sizes: Sizes) -> list[str]:
    (block,), name, (stacked,) = step.blocks, _function(step), step.outputs
    mapped = "jax.vmap({})({})" if step.word == "vmap" else "jax.lax.map({}, {})"
    return [
        *_define(name, block, sizes, f"v{block.results[0].number}, total"),
        f"stacked, totals = {mapped.format(name, _stack(step, step.inputs[0]))}",
        f"v{stacked.number}, total = stacked.mean(0), total + totals.sum()",
    ]


def _render_while(step: Step, sizes: Sizes) -> list[str]:
    (block,), name, (x,) = step.blocks, _function(step), step.inputs
    count = ["2", "3", f"1 + ({_predicate(step, x, sizes)}).astype(jnp.int32)"][step.numbers[1] % 3]
    parameter, result = block.parameters[0].number, block.results[0].number
    before = f"v{parameter}, before = carry"
    lines = _define(name, block, sizes, f"v{result}, before + total", "_, carry")
    initial = f"(v{x.number} * {_constant(step)}, jnp.float32(0))"
    return [
        lines[0],
        f"    {before}",
        *lines[1:],
        f"{_name(step.outputs)}, totals = jax.lax.fori_loop(0, {count}, {name}, {initial})",
        "total = total + totals",
    ]


def _render_cond(step: Step, sizes: Sizes) -> list[str]:
    lines: list[str] = []
    for position, block in enumerate(step.blocks):
        lines += _define(_function(step, position), block, sizes, f"v{block.results[0].number}, total")
    x, y = (f"v{value.number}" for value in step.inputs)
    c, other = _constant(step), _constant(step, 0.11)
    choice = f"{_predicate(step, step.inputs[0], sizes)}, {_function(step, 0)}, {_function(step, 1)}"
    return [
        *lines,
        f"{_name(step.outputs)}, totals = jax.lax.cond({choice}, {x} * {c}, {y} * {other})",
        "total = total + totals",
    ]


def _render_call(step: Step, sizes: Sizes) -> list[str]:
    (block,), name = step.blocks, _function(step)
    after = f"({_name(block.parameters)},) if plain else ()"
    inputs = _name(step.inputs)
    return [
        *_define(name, block, sizes, f"{_name(block.results)}, total, {after}"),
        f"{_name(step.outputs)}, totals, after = jax.jit({name})({inputs})",
        f"{inputs}{',' if len(step.inputs) == 1 else ''} = after or ({inputs},)",
        "total = total + totals",
    ]


def _render_gradient(step: Step, sizes: Sizes) -> list[str]:
    (block,), name = step.blocks, _function(step)
    result = "".join(f"v{value.number}, " for value in block.results)
    function = POLICIES[step.mode].format(name)
    gradient, *beside = step.outputs
    auxiliary = f"({''.join(f'v{value.number}, ' for value in beside)})"
    return [
        *_define(name, block, sizes, f"total, ({result})"),
        f"(value, {auxiliary}), v{gradient.number} = jax.value_and_grad({function}, has_aux=True)({_name(step.inputs)})"
        if beside
        else f"(value, _), v{gradient.number} = jax.value_and_grad({function}, has_aux=True)({_name(step.inputs)})",
        "total = total + value * 1e-2",
    ]


def _render_layer(step: Step) -> list[str]:
    kernel, mode = step.mode.split(":")
    x, after = f"v{step.inputs[0].number}", step.outputs[0].number
    return [
        f'v{after}, sums{after} = layer(plain, {kernel}_kernel, {kernel}_formula, {x}, "{mode}")',
        f"total = total + sums{after}.sum() * {0.01 + after % 7 * 0.003:.3f}",
    ]


def _render_descent(step: Step, sizes: Sizes) -> list[str]:
    """Returns the lines of a loop that is differentiated by its first state."""
    (block,), name, (x, y) = step.blocks, _function(step), step.inputs
    gradient, last = (f"v{value.number}" for value in step.outputs)
    rows, outer = f"rows_{step.outputs[0].number}", f"descend_{step.outputs[0].number}"
    words = ["", "", ", reverse=True", ", unroll=2"][step.numbers[0] % 4]
    return [
        *_define(name, block, sizes, f"v{block.results[0].number}, total"),
        f"{rows} = {_stack(step, y)}",
        f"def {outer}(start):",
        f"    last, totals = jax.lax.scan({POLICIES[step.mode].format(name)}, start, {rows}{words})",
        "    return totals.sum() * 1e-2 + jnp.sin(last.astype(jnp.float32)).sum() * 0.1, last",
        f"(value, {last}), {gradient} = jax.value_and_grad({outer}, has_aux=True)(v{x.number})",
        "total = total + value * 1e-2",
    ]


def _render_ref_loop(step: Step, sizes: Sizes) -> list[str]:
    """Returns the lines of a loop whose iterations overwrite and read a Ref; with `plain`, the loop's state."""
    (block,), name, (x, y) = step.blocks, _function(step), step.inputs
    before, after, _ = (f"v{value.number}" for value in block.parameters)
    held, stacked = (f"v{value.number}" for value in step.outputs)
    lines = _define(name, block, sizes, f"state, (v{block.results[0].number}, total + sums.sum() * 1e-2)")
    c, other = _constant(step), _constant(step, 0.11)
    state = f"state_{step.outputs[0].number}"
    kernel = step.mode
    return [
        f"{state} = v{x.number} * {c}",
        f"{state} = {state} if plain else jax.new_ref({state})",
        f"def {name}(state, v{block.parameters[2].number}):",
        f"    {before}, sums, {after}, state = rewrite(",
        f"        plain, {kernel}_kernel, {kernel}_formula, state if plain else {state}",
        "    )",
        f"    {before}, {after} = {before} * {c}, {after} * {other}",
        *lines[1:],
        f"last, (stacked, totals) = jax.lax.scan({name}, {state} if plain else None, {_stack(step, y)})",
        f"{held} = last if plain else jax.freeze({state})",
        f"{stacked}, total = stacked.mean(0), total + totals.sum()",
    ]


def _render_shard_map(step: Step, sizes: Sizes) -> list[str]:
    (block,), name = step.blocks, _function(step)
    x, y, whole = (f"v{value.number} * {_constant(step, 0.11 * n)}" for n, value in enumerate(step.inputs))
    outputs = _name(step.outputs)
    results = ", ".join("P('d')" for _ in step.outputs)
    parted = [f"({value}).reshape({sizes.devices}, -1, {sizes.columns})" for value in (x, y)]
    joined = ", ".join(f"v{value.number}.reshape(-1, {sizes.columns})" for value in step.outputs)
    return [
        *_define(name, block, sizes, f'{_name(block.results)}, jax.lax.psum(total, "d")'),
        "if plain:",
        f'    mapped = jax.vmap({name}, axis_name="d", in_axes=(0, 0, None))',
        f"    {outputs}, totals = mapped({parted[0]}, {parted[1]}, {whole})",
        f"    {outputs}, totals = {joined}, totals[0]",
        "else:",
        "    mapped = jax.shard_map(",
        f'        {name}, in_specs=(P("d"), P("d"), P()), out_specs=({results}, P()), check_vma=False',
        "    )",
        f"    {outputs}, totals = mapped({x}, {y}, {whole})",
        "total = total + totals",
    ]


_CONTROL = {"scan": _render_scan, "map": _render_map, "vmap": _render_map, "while": _render_while, "cond": _render_cond}


def _constant(step: Step, more: float = 0.0) -> str:
    """Returns a number of the step. more: distinguishes its operands, because equal ones are one value to XLA."""
    return f"{0.5 + (step.numbers or (37,))[0] / 100 + more:.2f}"


def _wide(value: Variable) -> str:
    name = f"v{value.number}"
    return name if value.kind.dtype == "float32" else f"{name}.astype(jnp.float32)"


def _name(values: Iterable[Variable]) -> str:
    return ", ".join(f"v{value.number}" for value in values)


def _indent(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]
