"""Makes smaller programs from a program: with fewer outputs, with fewer equations, with loops replaced by their bodies, with
smaller sizes. Every function returns a new program, or None if the edit does not apply.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from ligerdiag.reduce.program_text import count_uses
from ligerdiag.reduce.reduced_program import (
    ArrayType,
    Body,
    Equation,
    Kind,
    Operand,
    Program,
    ReducedArgument,
    Variable,
    iterate_equations,
    read_variable,
    substitute,
)


def keep_outputs(program: Program, kept: Collection[int]) -> Program:
    """Returns the program with only the outputs that have these numbers."""
    numbers = sorted(kept)
    body = replace(program.body, results=tuple(program.body.results[number] for number in numbers))
    return prune(replace(program, body=body, outputs=tuple(program.outputs[number] for number in numbers)))


def prune(program: Program) -> Program:
    """Returns the program without the equations, loop states and arguments whose values are never read.

    Keeps kernel calls and stores into Refs, because they have effects besides their results.
    """
    body = program.body
    while True:
        smaller = _prune_body(body, count_uses(body))
        if smaller == body:
            break
        body = smaller
    uses = count_uses(body)
    kept = [number for number, one in enumerate(body.parameters) if uses[one.name]]
    return replace(
        program,
        body=replace(body, parameters=tuple(body.parameters[number] for number in kept)),
        arguments=tuple(program.arguments[number] for number in kept),
    )


def _prune_body(body: Body, uses: Mapping[str, int]) -> Body:
    equations: list[Equation] = []
    for equation in body.equations:
        stays = any(one.stays for one in (equation, *_inside(equation)))
        if not stays and not any(uses.get(one.name) for one in equation.results):
            continue
        inner = tuple(_prune_body(one, uses) for one in equation.bodies)
        equations.append(_prune_results(replace(equation, bodies=inner), uses))
    return replace(body, equations=tuple(equations))


def _prune_results(equation: Equation, uses: Mapping[str, int]) -> Equation:
    """Drops results of a loop, a branch or a `shard_map` that nobody reads, and operands that its body does not read."""

    def is_read(number: int) -> bool:
        return bool(uses.get(equation.results[number].name))

    if equation.kind in (Kind.SWITCH, Kind.SHARD_MAP):
        kept = [number for number in range(len(equation.results)) if is_read(number)] or [0]
        equation = _keep_results(equation, kept)
    if equation.kind is Kind.SHARD_MAP:
        (body,) = equation.bodies
        inside = count_uses(body)
        read = [number for number, one in enumerate(body.parameters) if inside[one.name]]
        return replace(
            equation,
            operands=tuple(equation.operands[number] for number in read),
            input_specs=tuple(equation.input_specs[number] for number in read),
            bodies=(replace(body, parameters=tuple(body.parameters[number] for number in read)),),
        )
    if equation.kind is not Kind.SCAN:
        return equation
    (body,), carried = equation.bodies, equation.carried
    inside = count_uses(body)
    states = [
        number
        for number in range(carried)
        if is_read(number) or inside[body.parameters[number].name] > _reads_itself(body, number)
    ]
    collected = [number for number in range(carried, len(equation.results)) if is_read(number)]
    slices = [number for number in range(carried, len(body.parameters)) if inside[body.parameters[number].name]]
    return replace(
        equation,
        carried=len(states),
        results=tuple(equation.results[number] for number in (*states, *collected)),
        operands=tuple(equation.operands[number] for number in (*states, *slices)),
        bodies=(
            replace(
                body,
                parameters=tuple(body.parameters[number] for number in (*states, *slices)),
                results=tuple(body.results[number] for number in (*states, *collected)),
            ),
        ),
    )


def _reads_itself(body: Body, state: int) -> int:
    """Returns how often a loop's state is read only to compute its own next value, in one equation or none."""
    name, result = body.parameters[state].name, body.results[state]
    if result.text == name:
        return 1
    makers = [one for one in body.equations if any(each.name == result.text for each in one.results)]
    uses = count_uses(body)
    if len(makers) != 1 or uses[result.text] != 1 or makers[0].kind is not Kind.PLAIN:
        return 0
    return sum(one.text == name and not one.is_literal for one in makers[0].operands)


def _keep_results(equation: Equation, kept: Collection[int]) -> Equation:
    return replace(
        equation,
        results=tuple(equation.results[number] for number in kept),
        output_specs=tuple(equation.output_specs[number] for number in kept) if equation.output_specs else (),
        bodies=tuple(replace(body, results=tuple(body.results[number] for number in kept)) for body in equation.bodies),
    )


def _inside(equation: Equation) -> Iterator[Equation]:
    for body in equation.bodies:
        yield from iterate_equations(body)


def list_names(program: Program) -> tuple[str, ...]:
    """Returns the names of all equations that can be removed, in program order.

    The name of an equation is that of its first result.
    """
    return tuple(one.label for one in iterate_equations(program.body) if one.label)


def remove_equations(program: Program, names: Collection[str], *, by_operand: bool = True) -> Program | None:
    """Returns the program without these equations.

    A value of the same type replaces each result of a removed equation. If `by_operand` is true, it is an operand of the
    equation. Otherwise, it is a new argument of the program, or zeros in the body of a `shard_map`, which cannot read
    arguments of the program.
    """
    values: dict[str, Operand] = {}
    added: list[Variable] = []

    def drop(body: Body, *, is_closed: bool) -> Body:
        equations: list[Equation] = []
        for equation in body.equations:
            if equation.label not in names:
                closed = is_closed or equation.kind is Kind.SHARD_MAP
                bodies = tuple(drop(one, is_closed=closed) for one in equation.bodies)
                equations.append(replace(equation, bodies=bodies))
                continue
            for result in equation.results:
                operand = _find_like(equation, result.type) if by_operand else None
                values[result.name] = operand or _make_value(result, added, is_closed=is_closed)
        return replace(body, equations=tuple(equations))

    body = drop(program.body, is_closed=False)
    if any(not one.type.dtype or one.type.is_ref for one in added):
        return None
    return prune(_add_arguments(replace(program, body=substitute(body, values)), added))


def _find_like(equation: Equation, kind: ArrayType) -> Operand | None:
    return next((one for one in equation.operands if one.type.is_like(kind) and not one.is_literal), None)


def _make_value(result: Variable, added: list[Variable], *, is_closed: bool) -> Operand:
    if is_closed:
        return write_zeros(result.type)
    variable = Variable(name=f"x{result.name.removeprefix('t')}", type=replace(result.type, weak=False))
    added.append(variable)
    return read_variable(variable)


def write_zeros(kind: ArrayType) -> Operand:
    """Returns an expression whose value is an array of zeros of this type."""
    shape = f"({kind.shape[0]},)" if len(kind.shape) == 1 else str(kind.shape)
    dtype = "bool_" if kind.dtype == "bool" else kind.dtype
    return Operand(text=f"jnp.zeros({shape}, jnp.{dtype})", type=kind, is_literal=True)


def _add_arguments(program: Program, added: Collection[Variable]) -> Program:
    taken = {one.name for one in program.body.parameters}
    renamed = {one.name: replace(one, name=_make_unique(one.name, taken)) for one in added}
    values = {name: read_variable(one) for name, one in renamed.items() if one.name != name}
    body = substitute(program.body, values) if values else program.body
    return replace(
        program,
        body=replace(body, parameters=(*body.parameters, *renamed.values())),
        arguments=(*program.arguments, *(ReducedArgument() for _ in renamed)),
    )


def _make_unique(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def peel_output(program: Program, number: int) -> Iterator[Program]:
    """Yields variants of the program that return an operand of the last operation instead of its result.

    This operation is the one that computes output number `number`. There is one variant for each operand. The operand may
    have another type than the output.
    """
    result = program.body.results[number]
    makers = [one for one in program.body.equations if any(each.name == result.text for each in one.results)]
    for equation in makers:
        if equation.kind not in (Kind.PLAIN, Kind.UNPRINTABLE):
            continue
        for operand in dict.fromkeys(equation.operands):
            if not operand.is_literal:
                results = (*program.body.results[:number], operand, *program.body.results[number + 1 :])
                yield prune(replace(program, body=replace(program.body, results=results)))


def replace_by_argument(program: Program) -> Program:
    """Returns the program with a new argument for each result of an operation that cannot be printed as Python."""
    names = {one.label for one in iterate_equations(program.body) if one.kind is Kind.UNPRINTABLE}
    return (remove_equations(program, names, by_operand=False) or program) if names else program


def merge_arguments(program: Program, kept: str, dropped: str) -> Program | None:
    """Returns the program in which every read of the argument `dropped` reads the argument `kept`.

    None if their types or their partitions differ, or if one of them is donated.
    """
    parameters = {one.name: one for one in program.body.parameters}
    if not parameters[kept].type.is_like(parameters[dropped].type):
        return None
    numbers = {one.name: number for number, one in enumerate(program.body.parameters)}
    first, second = (program.arguments[numbers[name]] for name in (kept, dropped))
    if first.donated or second.donated or first.partition != second.partition:
        return None
    return prune(replace(program, body=substitute(program.body, {dropped: read_variable(parameters[kept])})))


def run_once(program: Program, name: str) -> Program | None:
    """Returns the program with a loop replaced by its body, or a conditional replaced by one of its branches.

    None if that is not possible. name: the name of the loop or conditional. If the loop collects a result of every
    iteration, the array keeps its shape. Each part of it is then the result of the only iteration.
    """

    def insert(body: Body, number: int) -> Body | None:
        found = _open(body.equations[number])
        if found is None:
            return None
        equations, values = found
        before, after = body.equations[:number], body.equations[number + 1 :]
        return substitute(replace(body, equations=(*before, *equations, *after)), values)

    body = _change_at(program.body, name, insert)
    return None if body is None else prune(replace(program, body=body))


def _change_at(body: Body, name: str, change: Callable[[Body, int], Body | None]) -> Body | None:
    """Returns the body in which one body, at any depth, is another one; None if nothing changes.

    name: of an equation. change: makes the new body from that with the equation, and the equation's number in it.
    """
    for number, equation in enumerate(body.equations):
        if equation.label == name:
            return change(body, number)
        for place, inner in enumerate(equation.bodies):
            changed = _change_at(inner, name, change)
            if changed is not None:
                bodies = (*equation.bodies[:place], changed, *equation.bodies[place + 1 :])
                new = replace(equation, bodies=bodies)
                return replace(body, equations=(*body.equations[:number], new, *body.equations[number + 1 :]))
    return None


def count_iterations(equation: Equation) -> int:
    """Returns the number of iterations of a loop that `shorten_loop` can shorten, and 0 for any other loop.

    For a scan without scanned arrays, it is the scan's length. For a `while`, it is the number with which the condition
    compares the counter.
    """
    if equation.kind is Kind.SCAN:
        is_over_nothing = len(equation.operands) == len(equation.results) == equation.carried
        return equation.length if is_over_nothing else 0
    if equation.kind is not Kind.WHILE:
        return 0
    bounds = [int(one.text) for each in equation.bodies[0].equations for one in each.operands if _is_bound(each, one)]
    return bounds[0] if len(bounds) == 1 else 0


def _is_bound(comparison: Equation, operand: Operand) -> bool:
    is_number = operand.is_literal and operand.text.isdigit() and not operand.type.shape
    return is_number and comparison.primitive in ("lt", "le", "gt", "ge", "ne")


def shorten_loop(program: Program, name: str, iterations: int) -> Program | None:
    """Returns the program in which a loop has only `iterations` iterations.

    None if the loop has no more than that, or an unknown number of them. A scan over arrays is shortened by `resize`,
    since its length is a size.
    """

    def shorten(body: Body, number: int) -> Body | None:
        equation = body.equations[number]
        if count_iterations(equation) <= iterations:
            return None
        if equation.kind is Kind.SCAN:
            new = replace(equation, length=iterations)
        else:
            condition, inner = equation.bodies
            equations = tuple(
                replace(
                    one,
                    operands=tuple(
                        replace(each, text=str(iterations)) if _is_bound(one, each) else each for each in one.operands
                    ),
                )
                for one in condition.equations
            )
            new = replace(equation, bodies=(replace(condition, equations=equations), inner))
        return replace(body, equations=(*body.equations[:number], new, *body.equations[number + 1 :]))

    body = _change_at(program.body, name, shorten)
    return None if body is None else replace(program, body=body)


def _open(equation: Equation) -> tuple[tuple[Equation, ...], dict[str, Operand]] | None:
    """Returns the equations of a loop's body, and what its parameters and results are; None for another equation."""
    values: dict[str, Operand] = {}
    match equation.kind:
        case Kind.SCAN:
            (body,), carried = equation.bodies, equation.carried
            before: list[Equation] = []
            after: list[Equation] = []
            for number, parameter in enumerate(body.parameters):
                operand = equation.operands[number]
                if number < carried:
                    values[parameter.name] = operand
                else:
                    before.append(Equation(primitive="index", results=(parameter,), operands=(operand,), text="{0}[0]"))
            for number, result in enumerate(equation.results):
                if number < carried:
                    values[result.name] = body.results[number]
                else:
                    text = f"jnp.broadcast_to({{0}}, {result.type.shape})"
                    made = Equation(
                        primitive="broadcast", results=(result,), operands=(body.results[number],), text=text
                    )
                    after.append(made)
            return (*before, *body.equations, *after), values
        case Kind.WHILE:
            body = equation.bodies[1]
        case Kind.SWITCH:
            body = equation.bodies[-1]
        case _:
            return None
    values |= {one.name: value for one, value in zip(body.parameters, equation.operands, strict=False)}
    values |= {one.name: value for one, value in zip(equation.results, body.results, strict=True)}
    return body.equations, values


def resize(program: Program, old: int, new: int) -> Program:
    """Returns the program with each number `old` in a shape or in an expression replaced by `new`.

    The result may be inconsistent; JAX then raises an error when it traces the program.
    """
    pattern = re.compile(rf"(?<![\w.=]){old}(?![\w.])|(?<=[A-Z]=){old}(?![\w.])")
    in_calls = re.compile(
        rf"(?<![\w.=]){old}(?![\w.])|(?<=\w=)(?<!num_warps=)(?<!num_stages=)(?<!num_ctas=){old}(?![\w.])"
    )

    def change_type(kind: ArrayType) -> ArrayType:
        return replace(kind, shape=tuple(new if size == old else size for size in kind.shape))

    def change_operand(one: Operand) -> Operand:
        text = pattern.sub(str(new), one.text) if one.is_literal and one.type.shape else one.text
        return replace(one, type=change_type(one.type), text=text)

    def change_variable(one: Variable) -> Variable:
        return replace(one, type=change_type(one.type))

    def change(body: Body) -> Body:
        return Body(
            parameters=tuple(map(change_variable, body.parameters)),
            results=tuple(map(change_operand, body.results)),
            equations=tuple(
                replace(
                    one,
                    results=tuple(map(change_variable, one.results)),
                    operands=tuple(map(change_operand, one.operands)),
                    text=(in_calls if one.kind is Kind.KERNEL else pattern).sub(str(new), one.text),
                    bodies=tuple(map(change, one.bodies)),
                    length=new if one.length == old else one.length,
                )
                for one in body.equations
            ),
        )

    arguments = tuple(
        replace(one, values=replace(one.values, high=new)) if one.values.high == old else one
        for one in program.arguments
    )
    return replace(program, body=change(program.body), arguments=arguments)
