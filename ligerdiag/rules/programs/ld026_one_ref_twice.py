"""LD026 one-ref-twice: a kernel writes one array through two pointers, and one of the results is dropped."""

from collections.abc import Iterator, Mapping

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.writes import writes_aliased
from ligerdiag.effects.access import CallEffects, WriteCoverage
from ligerdiag.hlo.custom_calls import CallTrait, is_call_with
from ligerdiag.hlo.dataflow import Dataflow, PassThrough, Position
from ligerdiag.hlo.module import HloInstruction, HloModule, find_user_line
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import ShapeIndex, is_tuple, iterate_leaves
from ligerdiag.model.findings import Finding, Severity
from ligerdiag.rules.rule import Example, Rule
from ligerdiag.text import join_words

_NAMES = PassThrough(bitcasts=True, barriers=True, tuples=True, arguments=True, shards=True)
_PASSED_ON = having(Trait.BARRIER, Trait.TAKES_ELEMENT)
HELP = "give each pointer a Ref or an array of its own, and combine the parts after the call"


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each call that gets one value as several operands and overwrites it through all of them.

    It yields none if the program uses all results of the call.
    """
    module = context.program
    flow = Dataflow(module, _NAMES)
    for call, effects in context.calls:
        aliases = call.operand_output_aliases
        groups: dict[tuple[int, ShapeIndex], list[int]] = {}
        for number in sorted(aliases):
            if writes_aliased(effects, call, number, aliases[number]):
                groups.setdefault(_name(flow.find_definition(call.operands[number])), []).append(number)
        for numbers in groups.values():
            dropped = [number for number in numbers if not _is_used(module, call, aliases[number])]
            if dropped and len(numbers) > 1 and _is_one(context, call, effects, numbers):
                yield _report(context, call, effects, numbers, dropped)


def _is_one(context: Context, call: HloInstruction, effects: CallEffects, numbers: list[int]) -> bool:
    """Returns whether the author means one buffer by these operands of the call. numbers: the operands.

    The trace of the program shows whether the operands are one `Ref`. For values the answer is yes only if the kernel
    fills each of them only partly: otherwise one may be scratch memory that nobody reads afterwards.
    """
    path = context.program.find_tag_path(call)
    repeated = context.repeated.get(path[-1]) if path else None
    if is_call_with(call, CallTrait.JAX_TRITON_FFI) and repeated is not None:
        return any(len(set(group).intersection(numbers)) > 1 for group in repeated)
    return all(_is_partial(effects, call, number) for number in numbers)


def _is_partial(effects: CallEffects, call: HloInstruction, number: int) -> bool:
    outputs = dict(zip(iterate_leaves(call.shape), effects.output_uses, strict=False))
    uses = [outputs.get(call.operand_output_aliases[number])]
    if number < len(effects.operand_uses):
        uses.append(effects.operand_uses[number])
    return any(use is not None and use.coverage is WriteCoverage.PARTIAL for use in uses)


def _name(value: Position) -> tuple[int, ShapeIndex]:
    return value[0].id, value[1]


def _is_used(module: HloModule, call: HloInstruction, leaf: ShapeIndex) -> bool:
    """Returns whether anything uses this result of the call; instructions that only pass the result on, and whose own
    value nobody uses, do not count.
    """
    users = module.homes[call.id].users
    root = module.homes[call.id].root
    pending = [call] if not is_tuple(call.shape) else _list_taken(users, call, leaf)
    if call is root:
        return True
    while pending:
        one = pending.pop()
        if one is root or any(user.opcode not in _PASSED_ON for user in users[one.id]):
            return True
        pending += users[one.id]
    return False


def _list_taken(
    users: Mapping[int, tuple[HloInstruction, ...]], call: HloInstruction, leaf: ShapeIndex
) -> list[HloInstruction]:
    """Returns the users of one result of the call: instructions that take this leaf, or the tuple of all results."""
    return [
        user
        for user in users[call.id]
        if user.opcode != "get-tuple-element" or user.proto.tuple_index == (leaf[0] if leaf else 0)
    ]


def _report(
    context: Context, call: HloInstruction, effects: CallEffects, numbers: list[int], dropped: list[int]
) -> Finding:
    results = {number: call.aliasing_outputs[number] for number in numbers}
    one = "Ref" if is_call_with(call, CallTrait.JAX_TRITON_FFI) else "value"
    operands = join_words([str(number) for number in numbers])
    lost = join_words([f"output {results[number]}" for number in dropped])
    return Finding(
        rule=RULE.id,
        severity=RULE.severity,
        message=f"`{effects.kernel}` overwrites one {one} through operands {operands}, and the program drops {lost}",
        outputs=_find_outputs(context, call),
        source=find_user_line(context.program, call),
        kernel=effects.kernel,
        operand=dropped[0],
        instructions=(call.name,),
        evidence=(
            ("call", f"operands {operands} of %{call.name} are one value, which XLA copies for each output"),
            ("lost", f"nothing reads what the kernel writes to {lost}"),
        ),
        help=HELP,
    )


def _find_outputs(context: Context, call: HloInstruction) -> tuple[str, ...]:
    """Returns the names of the program's outputs that may be computed from results of the call."""
    module = context.program
    seen = {call.id}
    pending = [call]
    while pending:
        one = pending.pop()
        home = module.homes[one.id]
        following = [*home.users[one.id], *(module.callers.get(home.id, ()) if one is home.root else ())]
        pending += [user for user in following if user.id not in seen]
        seen.update(user.id for user in following)
    root = module.entry.root
    names = tuple(context.verdicts.outputs)
    if root.opcode != "tuple" or len(root.operands) != len(names):
        return names if root.id in seen else ()
    return tuple([name for name, value in zip(names, root.operands, strict=True) if value.id in seen])


_HALVES = """\
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as pallas_triton

from ligerdiag import Arg, Case

N = 128


def halves_kernel(first_ref, second_ref, x_ref, first_out, second_out):
    first_out[: N // 2] = x_ref[: N // 2] + 10
    second_out[N // 2 :] = x_ref[N // 2 :] + 20


def fill_halves(first, second, x):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(
        halves_kernel,
        out_shape=(shape, shape),
        input_output_aliases={0: 0, 1: 1},
        compiler_params=pallas_triton.CompilerParams(),
    )(first, second, x)


"""
ONE_TWICE = Example(
    about="A kernel fills a half of an array through each of two pointers; both are one array, and one half is dropped.",
    code=_HALVES
    + """\
def step(y, x):
    y = y * 2
    _, y = fill_halves(y, y, x)
    return {"y": y}


CASE = Case(name="one_twice", function=step, args=(Arg(shape=(N,)), Arg(shape=(N,))))
""",
)
TWO = Example(
    about="Each pointer has an array of its own, and both results are used.",
    code=_HALVES
    + """\
def step(y, x):
    first, second = fill_halves(y * 2, jnp.zeros_like(y), x)
    return {"y": jnp.concatenate([first[: N // 2], second[N // 2 :]])}


CASE = Case(name="two", function=step, args=(Arg(shape=(N,)), Arg(shape=(N,))))
""",
)

RULE = Rule(
    id="LD026",
    name="one-ref-twice",
    severity=Severity.ERROR,
    leaves_undefined=True,
    summary="a kernel overwrites one value through two pointers, and part of what it writes is dropped",
    what_it_does="""\
Looks in the program for a kernel call that gets one value as several operands, each of which an output of the call
aliases and the kernel writes, and of which the program drops an output. A `Ref` that is passed for two pointers is such
a call.""",
    why="""\
The author means one buffer behind both pointers. XLA has two results: each alias makes a new value, and if two of them
start from one value, XLA copies it. The kernel writes through one pointer into the first copy and through the other
pointer into the second, and jax-triton keeps one of the two for the `Ref`: half of what the kernel wrote is lost
silently. JAX's own `jit` refuses a `Ref` that is passed twice; jax-triton 0.4 accepts it.""",
    what_to_do="""\
Give each pointer a `Ref` or an array of its own and combine the parts after the call, or give the kernel one pointer
for the whole buffer.""",
    limits="""\
The trace shows that two operands are one `Ref`. For values, the rule requires a proof that the kernel fills each of
them only partly: a kernel may get one array of zeros both for its result and as scratch memory that nobody reads
afterwards. A kernel whose code could not be followed is not reported, nor is one that writes nothing through the
pointer whose result is dropped.""",
    references=("github.com/csarofeen/pytorch/issues/1984 (one tensor as two outputs of a fusion)",),
    bad=(ONE_TWICE,),
    good=(TWO,),
    check=check,
)
