"""LD024 shared-bytes: XLA put two values into the same bytes although both are still needed."""

from collections.abc import Iterator, Sequence

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.explain.sharing_sentences import describe_pair, describe_place, name_position, name_reader
from ligerdiag.hlo.module import HloInstruction, find_user_line
from ligerdiag.hlo.shared_bytes import SharedBytes
from ligerdiag.model.findings import Finding, ReadPlace, Severity, SourceLine, Verdict
from ligerdiag.rules.rule import Example, Party, Reproduction, Rule, RuleKind
from ligerdiag.rules.wording import UNFUSED, begin_sentence, render_at


def check(context: Context) -> Iterator[Finding]:
    """Yields one finding for each pair of values that XLA keeps in the same bytes. Either of the two may be lost."""
    pairs: dict[frozenset[object], list[SharedBytes]] = {}
    for one in context.shared:
        key = frozenset(((one.lost[0].id, one.lost[1]), (one.other[0].id, one.other[1])))
        pairs.setdefault(key, []).append(one)
    for both in pairs.values():
        yield _report(context, both)


def _report(context: Context, both: Sequence[SharedBytes]) -> Finding:
    first = both[0]
    reached = frozenset[int]().union(*[one.outputs for one in both])
    outputs = tuple([name for number, name in enumerate(context.verdicts.outputs) if number in reached])
    place = _locate(context, both)
    involved = (first.lost[0], first.other[0], *[one.reader for one in both if one.reader is not None])
    return Finding(
        rule=RULE.id,
        severity=RULE.severity,
        message=f"{_begin(first, outputs)}{describe_pair(first)}",
        outputs=outputs,
        source=place,
        kernel=_find_kernel(context, first),
        instructions=tuple(dict.fromkeys(one.name for one in involved)),
        evidence=(
            ("value", f"{name_position(first.lost)} is in {describe_place(first.lost_place)}"),
            ("value", f"{name_position(first.other)} is in {describe_place(first.other_place)}"),
            *[("read", _describe_read(context, one)) for one in both],
        ),
        help=_find_help(context, first),
        reader=ReadPlace(line=place),
    )


def _begin(pair: SharedBytes, outputs: tuple[str, ...]) -> str:
    if outputs:
        given = "either of two values" if pair.lost[0] is pair.other[0] else "a different value"
        return begin_sentence(outputs, f"gets {given}: ", f"get {given}: ")
    return "an argument that the caller keeps is overwritten: " if pair.is_kept else "no output depends on it: "


def _describe_read(context: Context, pair: SharedBytes) -> str:
    lost, other, reader = name_position(pair.lost), name_position(pair.other), pair.reader
    if reader is None:
        return f"{name_reader(pair)} {lost}, and finds {other} there"
    time = context.logical_times.get(reader.id)
    when = "" if time is None else f" at logical time {time}"
    more = f", and {pair.readers - 1} more" if pair.readers > 1 else ""
    found = "may find" if pair.other[0] in (pair.lost[0], reader) else "finds"
    return f"{name_reader(pair)} {lost}{when}, and {found} {other} there{more}{render_at(_find_line(context, reader))}"


def _locate(context: Context, both: Sequence[SharedBytes]) -> SourceLine | None:
    """Returns the source line of a reader, else of one of the two values; None if none is known. both: all records about
    one pair of values, which may differ in the value that is lost and in its reader.
    """
    readers = [one.reader for one in both if one.reader is not None]
    found = (_find_line(context, one) for one in (*readers, both[0].lost[0], both[0].other[0]))
    return next((line for line in found if line is not None), None)


def _find_line(context: Context, instruction: HloInstruction) -> SourceLine | None:
    line = find_user_line(context.optimized, instruction)
    if line is not None or instruction.opcode != "fusion":
        return line
    fused = context.optimized.computations[instruction.called_computations[0]].instructions
    found = (find_user_line(context.optimized, one) for one in reversed(fused))
    return next((one for one in found if one is not None), None)


def _find_help(context: Context, pair: SharedBytes) -> str:
    if any(_holds_a_call(context, one) for one in (pair.lost[0], pair.other[0])):
        return UNFUSED
    if _is_declared(context, pair):
        return "let each output alias one operand: XLA puts all operands that alias one output into one buffer"
    return _BISECT


def _is_declared(context: Context, pair: SharedBytes) -> bool:
    """Returns whether the reader is a call whose own aliases put several operands into one buffer."""
    shared = (one.instruction for one in context.optimized.invalid_aliases if one.is_shared)
    return pair.reader is not None and pair.reader.id in shared


def _find_kernel(context: Context, pair: SharedBytes) -> str:
    """Returns the kernel of the call whose own aliases put the values into one buffer; empty if XLA chose to share."""
    if not _is_declared(context, pair):
        return ""
    return next((effects.kernel for call, effects in context.optimized_calls if call is pair.reader), "")


def _holds_a_call(context: Context, instruction: HloInstruction) -> bool:
    """Returns whether the instruction is a fusion that contains a custom call and the slices around it."""
    if instruction.opcode != "fusion":
        return False
    fused = context.optimized.computations[instruction.called_computations[0]].instructions
    return any(one.opcode == "custom-call" for one in fused)


_BISECT = (
    "this is a bug in XLA: find a flag that avoids it with `ligerdiag bisect FILE --over flags`, such as"
    " `XLA_FLAGS=--xla_disable_hlo_passes=priority-fusion`, and report it to openxla/xla"
)

PIECES = """\
import jax.numpy as jnp

from ligerdiag import Arg, Case

DEVICES, ROWS, LOW, HIGH = 4, 2, 1, 2
PIECE = LOW + ROWS + HIGH


def spread(v):
    return jnp.concatenate([jnp.pad(v[ROWS * i : ROWS * (i + 1)], (LOW, HIGH)) for i in range(DEVICES)])


def gather(v):
    return jnp.concatenate([v[PIECE * i + LOW : PIECE * i + LOW + ROWS] for i in range(DEVICES)])


def step(x, z):
    return {"sum": gather(spread(x) * z) + gather(spread(gather(z)))}


ARGS = (Arg(shape=(DEVICES * ROWS,), partition=("x",)), Arg(shape=(DEVICES * PIECE,), partition=("x",)))
"""

FOUR_DEVICES = Example(
    about="Padded pieces of sharded arrays on four GPUs: one fusion updates one array in place twice, in the same bytes.",
    code=f"""{PIECES}CASE = Case(name="on_four", function=step, args=ARGS, mesh={{"x": 4}})
""",
)

TWO_DEVICES = Example(
    about="The same program on two GPUs: XLA builds another fusion, whose results have separate bytes.",
    code=f"""{PIECES}CASE = Case(name="on_two", function=step, args=ARGS, mesh={{"x": 2}})
""",
)

_ADD = """\
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt

from ligerdiag import Arg, Case


def add_kernel(a_ref, b_ref, o_ref):
    o_ref[...] = a_ref[...] + b_ref[...]


def add(a, b, aliases):
    shape = jax.ShapeDtypeStruct(a.shape, a.dtype)
    params = plt.CompilerParams(num_warps=1)
    return pl.pallas_call(add_kernel, out_shape=shape, input_output_aliases=aliases, compiler_params=params)(a, b)


"""

TWO_OPERANDS = Example(
    about="Two operands are declared to alias one output: XLA puts all three into the same bytes.",
    code=f"""{_ADD}def step(a, b):
    return {{"sum": add(jnp.tanh(a), jnp.sin(b), {{0: 0, 1: 0}})}}


CASE = Case(name="two_operands", function=step, args=(Arg(shape=(256,)), Arg(shape=(256,))))
""",
)

ONE_OPERAND = Example(
    about="One operand is declared to alias the output, and the other has its own bytes.",
    code=f"""{_ADD}def step(a, b):
    return {{"sum": add(jnp.tanh(a), jnp.sin(b), {{0: 0}})}}


CASE = Case(name="one_operand", function=step, args=(Arg(shape=(256,)), Arg(shape=(256,))))
""",
)

RULE = Rule(
    id="LD024",
    name="shared-bytes",
    severity=Severity.ERROR,
    kind=RuleKind.SHARED_BYTES,
    party=Party.XLA,
    for_maintainers="buffer assignment puts two values into the same bytes while both are live",
    summary="two values share bytes while both are alive: XLA's own mistake",
    what_it_does="""\
Walks over the schedule, loops and branches included, with the bytes of XLA's buffer assignment, and tracks which value
was written where last. Reports every read that finds another value than its operand, results of one instruction in the
same bytes, a result in the bytes of an operand that is still needed for other elements of the result (a transpose, a
product), and arguments that are overwritten although the caller keeps them. Values of which one becomes the other (loop
state, in-place updates, the two ends of a declared alias) may share bytes as long as nobody reads the old one afterwards.
The rule covers every module with a schedule and a buffer assignment, with or without a kernel.""",
    why="""\
Nothing fails: the program computes with bytes that hold something else. The causes seen so far are copies that XLA
omits, two results of one fusion that update one operand in place, a fusion that gets one value under two names (one of
them from an `optimization_barrier`), of which XLA checks only one, and aliases that contradict each other. On four H200s
the sum in the first example is off by a third.""",
    what_to_do="""\
If an alias is declared twice, declare it once: each operand for one output, and each output of one operand. If a kernel
was fused with slices, put `jax.lax.optimization_barrier` around its operands and results, as for LD022. Otherwise it is
a bug in XLA. `ligerdiag bisect FILE --over flags` compiles the program with one flag changed at a time, and says with
which flag every output is right, that is, this finding is gone. `--over passes` names no pass here, because it follows
kernels. `xla_disable_hlo_passes=priority-fusion` cures the first example. Report the program to openxla/xla.""",
    limits="""\
A named output may be right: the two values may be equal, or the remaining one may be the intended one. The rule assumes
that a fusion that XLA writes in Triton reads whole rows before it writes them. Without XLA's buffer assignment only the
values that must share bytes are known: outputs that depend on these are unknown, and there is no finding. LD001 to
LD006 cover what a kernel overwrites behind XLA's back.""",
    references=(
        "github.com/jax-ml/jax/issues/39100",
        "github.com/csarofeen/pytorch/issues/1984",
    ),
    reproduced=(
        Reproduction(
            report="jax-ml/jax#39100",
            case="shared_bytes[pieces-4]",
            reproduced=(
                "two results of one fusion at one offset, without a GPU; on four H200s a relative error of 0.38, but none"
                " with `xla_disable_hlo_passes=priority-fusion`"
            ),
            missing="an answer of XLA's maintainers",
        ),
        Reproduction(
            report="csarofeen/pytorch#1984",
            case="shared_bytes[two_aliases]",
            reproduced="two aliases of one buffer, one of which is silently ignored: with XLA both operands are lost",
            missing="the fuser of PyTorch, which the report is about",
        ),
    ),
    bad=(FOUR_DEVICES, TWO_OPERANDS),
    good=(TWO_DEVICES, ONE_OPERAND),
    check=check,
    explains=Verdict.CLOBBERED,
)
