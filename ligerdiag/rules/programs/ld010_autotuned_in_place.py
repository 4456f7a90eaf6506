"""LD010 autotuned-in-place: the launcher of an autotuned kernel tries several configurations on bytes that it does not
restore, so later configurations see the results of earlier ones.
"""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.writes import HiddenWrite
from ligerdiag.effects.access import CallEffects, ReadsBeforeWrite
from ligerdiag.hlo.custom_calls import CallTrait, is_call_with
from ligerdiag.hlo.module import HloInstruction, find_user_line
from ligerdiag.hlo.shape import iterate_leaves
from ligerdiag.model.findings import Finding, Severity
from ligerdiag.rules.rule import Party, Reproduction, Rule, RuleKind, make_example
from ligerdiag.rules.wording import advise_zeros, describe_callers, locate_instruction, render_at


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each operand or output that the trials of an autotuned kernel read and overwrite.

    A trial is a run with one of the configurations. Later trials then read the results of earlier ones.
    """
    for call, effects in context.calls:
        if effects.configurations < 2:
            continue
        for write in [one for one in context.writes if one.call is call and not one.unknown]:
            # the next configuration may read what the previous one left
            counts = effects.operand_uses[write.operand].reads_before_write is not ReadsBeforeWrite.NO
            if counts and _holds_value(context, write):
                yield _report(context, call, effects, write.operand, "no output aliases it")
    for call, effects in context.optimized_calls:
        if effects.configurations > 1:
            for output in _find_own(call, effects):
                yield _report_output(context, call, effects, output)
            for operand in _find_shared(context, call, effects):
                why = "it shares bytes with an output that is not declared to alias it"
                yield _report(context, call, effects, operand, why)
            for operand, output in _find_declared(context, call, effects):
                yield _report(context, call, effects, operand, _explain_search(effects, operand, output))
            if _is_early(call) and _hits_argument(context, call, effects):
                yield _report(context, call, effects, None, "one of its outputs is in the bytes of an argument")


def _find_own(call: HloInstruction, effects: CallEffects) -> Iterator[int]:
    """Yields the number of each output that shares no operand's bytes, that the kernel reads and updates, and that the
    launcher does not zero before each launch.
    """
    declared = set(call.operand_output_aliases.values())
    for output, (leaf, use) in enumerate(zip(iterate_leaves(call.shape), effects.output_uses, strict=False)):
        if use.old_read is not None and leaf not in declared and effects.outputs[output].writes:
            yield output


def _report_output(context: Context, call: HloInstruction, effects: CallEffects, output: int) -> Finding:
    read = effects.output_uses[output].old_read
    line = None if read is None else read.line
    return Finding(
        rule=RULE.id,
        severity=RULE.severity,
        message=f"`{effects.kernel}` is autotuned on its output {output}, which it updates, and nothing resets that"
        " output between the trials",
        source=find_user_line(context.optimized, call),
        kernel=effects.kernel,
        instructions=(call.name,),
        evidence=(
            *describe_callers(locate_instruction(context.optimized, call)),
            _describe_launcher(call, effects),
            ("kernel", f"each run updates output {output} once more{render_at(line)}"),
        ),
        help=f"{advise_zeros(call.proto.custom_call_target, (output,))}; or use one configuration",
    )


def _describe_launcher(call: HloInstruction, effects: CallEffects) -> tuple[str, str]:
    when = "before the program runs" if _is_early(call) else "when the call is first reached"
    return (
        "launcher",
        f"it runs {effects.configurations} configurations, each several times, on the call's own buffers {when}",
    )


def _find_declared(context: Context, call: HloInstruction, effects: CallEffects) -> Iterator[tuple[int, int]]:
    """Yields (operand, output) for each declared alias whose operand the kernel reads and the launcher does not
    restore.
    """
    for alias in call.proto.output_operand_aliasing:
        operand, output = int(alias.operand_index), next(iter(alias.output_shape_index), 0)
        held = not _is_early(call) or any(
            _is_held(context, n) for n in context.positions.locate(call.operands[operand])
        )
        if held and _counts(effects, operand, output) and not effects.is_put_back(operand, output):
            yield operand, output


def _counts(effects: CallEffects, operand: int, output: int) -> bool:
    """Returns whether a configuration reads what the configuration before left in the bytes that the operand and the
    output share.
    """
    access, use, own = effects.operands[operand], effects.operand_uses[operand], effects.output_uses[output]
    if access.writes:
        return use.reads_before_write is not ReadsBeforeWrite.NO
    return effects.outputs[output].writes and (access.reads or own.reads_before_write is not ReadsBeforeWrite.NO)


def _explain_search(effects: CallEffects, operand: int, output: int) -> str:
    others = [other for first, other in effects.saved if first == operand]
    if not others:
        return f"output {output} is declared to alias it, but the launcher does not see the alias"
    count = len(effects.operands)
    found = ", ".join(f"operand {n}" if n < count else f"output {n - count}" for n in others)
    return (
        f"output {output} is declared to alias it, but the launcher restores operand {operand} only if it has the same"
        f" address as {found}"
    )


def _is_early(call: HloInstruction) -> bool:
    return is_call_with(call, CallTrait.JAX_TRITON_FFI)


def _holds_value(context: Context, write: HiddenWrite) -> bool:
    """Returns whether the operand already holds the program's values when the launcher tries the configurations."""
    slices = [n for actual in context.actual.writes if actual.write == write.index for n in actual.slices]
    return not _is_early(write.call) or any(_is_held(context, number) for number in slices)


def _is_held(context: Context, number: int | None) -> bool:
    """Returns whether the buffer slice belongs to an argument or a constant, whose bytes hold their values before the
    program runs. number: index of the slice.
    """
    if number is None or number < 0:
        return False
    allocation = context.buffers.slices[number].allocation
    return allocation in context.buffers.parameters or allocation in context.buffers.constants


def _list_written(context: Context, call: HloInstruction, effects: CallEffects) -> Iterator[int]:
    """Yields the buffer slice of each output that the kernel writes through the output's own pointer and that aliases
    no operand by declaration.
    """
    declared = {tuple(alias.output_shape_index) for alias in call.proto.output_operand_aliasing}
    for (index, number), access in zip(context.buffers.definitions.get(call.id, ()), effects.outputs, strict=False):
        if access.writes and index not in declared:
            yield number


def _find_shared(context: Context, call: HloInstruction, effects: CallEffects) -> Iterator[int]:
    """Yields each operand that the kernel reads although its bytes also hold an output that is not declared to alias
    it.
    """
    buffers = context.buffers
    written = {other for number in _list_written(context, call, effects) for other in buffers.overlapping[number]}
    positions = context.positions
    for operand, value in enumerate(call.operands):
        places = positions.locate(value)
        held = not _is_early(call) or any(_is_held(context, place) for place in places)
        if held and effects.operands[operand].reads and not written.isdisjoint(places):
            yield operand


def _hits_argument(context: Context, call: HloInstruction, effects: CallEffects) -> bool:
    """Returns whether the call writes an output into the bytes of a donated argument that the call itself does not
    read.
    """
    places = {place for value in call.operands for place in context.positions.locate(value)}
    return any(
        _is_held(context, number) and places.isdisjoint(context.buffers.overlapping[number])
        for number in _list_written(context, call, effects)
    )


def _report(context: Context, call: HloInstruction, effects: CallEffects, operand: int | None, why: str) -> Finding:
    module = context.optimized if any(call is one for one, _ in context.optimized_calls) else context.program
    what, it = (f"operand {operand}", "it") if operand is not None else ("the bytes of an argument", "them")
    read = f"it reads operand {operand} before it overwrites it; {why}" if operand is not None else why
    return Finding(
        rule=RULE.id,
        severity=RULE.severity,
        message=f"`{effects.kernel}` overwrites {what} while it is autotuned, and the launcher does not restore {it}",
        source=find_user_line(module, call),
        kernel=effects.kernel,
        operand=operand,
        instructions=(call.name,),
        evidence=(
            *describe_callers(locate_instruction(module, call)),
            _describe_launcher(call, effects),
            ("kernel", read),
        ),
        help=_describe_help(operand),
    )


def _describe_help(operand: int | None) -> str:
    if operand is None:
        return "use one configuration, or do not donate that argument"
    return (
        f"make the overwritten array output {operand} of the call, the operand's own number, and declare it"
        f" (`input_output_aliases={{{operand}: {operand}}}`), so that the launcher restores it; or use one configuration"
    )


_CONFIGURATIONS = """\
TWO = [triton.Config({}, num_warps=2), triton.Config({}, num_warps=4)]


"""

AUTOTUNED = make_example(
    about="The launcher doubles the rows of an argument many times with two configurations before the launch that counts.",
    code=_CONFIGURATIONS
    + """\
tuned_kernel = triton.autotune(configs=TWO, key=[])(double_kernel)


def sum_and_double_tuned(x):
    sums = jax.ShapeDtypeStruct(x.shape[:1], x.dtype)
    return jt.triton_call(x, kernel=tuned_kernel, out_shape=sums, grid=x.shape[:1], COLUMNS=x.shape[1])


def step(x):
    return {"sums": sum_and_double_tuned(x)}


CASE = Case(name="autotuned", function=step, args=(Arg(shape=(8, 32)),))
""",
)

AUTOTUNED_DONATED = make_example(
    about="The write is declared, but the launcher looks for the rows in the wrong buffer and restores nothing.",
    code=_CONFIGURATIONS
    + """\
@triton.autotune(configs=TWO, key=[])
@triton.jit
def tuned_kernel(x_ptr, sum_ptr, spare_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(x_ptr + at, 2 * x)


def step(x):
    sums = jax.ShapeDtypeStruct(x.shape[:1], x.dtype)
    sums, doubled = call_in_place(
        x, written=0, kernel=tuned_kernel, outputs=(sums,), grid=x.shape[:1], COLUMNS=x.shape[1]
    )
    return {"sums": sums, "doubled": doubled}


CASE = Case(name="autotuned_donated", function=step, args=(Arg(shape=(8, 32), donate=True),))
""",
)

AUTOTUNED_OUT_OF_PLACE = make_example(
    about="The same configurations, and an output with bytes of its own for the doubled rows.",
    code=_CONFIGURATIONS
    + """\
@triton.autotune(configs=TWO, key=[])
@triton.jit
def tuned_kernel(x_ptr, sum_ptr, out_ptr, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    at = row * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at)
    tl.store(sum_ptr + row, tl.sum(x))
    tl.store(out_ptr + at, 2 * x)


def step(x):
    outputs = (jax.ShapeDtypeStruct(x.shape[:1], x.dtype), jax.ShapeDtypeStruct(x.shape, x.dtype))
    sums, doubled = jt.triton_call(x, kernel=tuned_kernel, out_shape=outputs, grid=x.shape[:1], COLUMNS=x.shape[1])
    return {"sums": sums, "doubled": doubled}


CASE = Case(name="autotuned_out_of_place", function=step, args=(Arg(shape=(8, 32)),))
""",
)

ONE_CONFIGURATION = make_example(
    about="With one configuration the launcher tries nothing.",
    code="""\
def step(x, w):
    return {"sums": sum_and_double(x @ w)}


CASE = Case(name="one_configuration", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))))
""",
)

RULE = Rule(
    id="LD010",
    name="autotuned-in-place",
    severity=Severity.ERROR,
    kind=RuleKind.TRIED_IN_PLACE,
    party=Party.KERNEL,
    summary="the launcher tries several configurations on an operand that it does not restore",
    what_it_does="""\
Reports a kernel call with several configurations that reads an operand and overwrites it, if the launcher does not
restore the operand. This happens in three cases: the kernel writes the operand behind XLA's back; XLA put an
output into the bytes of an operand that was dead after the call; or the write is declared, and the launcher looks for
it in the wrong place. Also reports an output that the kernel updates, for instance by atomic additions, and that the
launcher does not zero: each configuration adds to it once more.""",
    why="""\
jaxlib's launcher for jax-triton kernels times the configurations on the buffers of the call itself: each runs twice,
then 2 to 101 times. A kernel that doubles its operand has doubled it many times over when the launch that counts
begins. It happens only the first time that a process reaches the call, because the launcher remembers the winner: a
test that warms up misses it.""",
    what_to_do="""\
Declare the write with an output that has the operand's own number: `input_output_aliases={0: 0}`. The launcher numbers
operands and outputs together, operands first, and copies an operand only if the buffer with the number of the declared
output is at the operand's address. jax-triton (0.3.1 and 0.4.1) passes it the number among the outputs alone, so that
`{0: 1}` compares operand 0 with operand 1, or with the first output, and makes no copy. A Ref, and the operands that
`call_in_place` overwrites, come after all outputs: their number equals the operand's only for operand 0 of a call
without other outputs. Or choose the configuration beforehand. For an output that the kernel adds to, use
`zeroed_outputs`: the launcher zeroes it before each launch.""",
    limits="""\
The kernel's Triton IR shows what the kernel reads, for all programs of a grid; if that is unknown, the operand counts
as read. A kernel that overwrites its operand without reading it is not reported: the winner writes it once more.
(Elements that only another configuration writes are not considered.) The verdicts do not take this rule into account,
and replay does not run autotuned kernels.

With `triton_kernel_call_ffi` (jax-triton 0.4 and later) the launcher tries the configurations before the program runs.
Only the bytes of arguments and constants hold a value then, so only these are reported; an output can be in the bytes
of a donated argument. Pallas and Mosaic choose no configuration at run time, and XLA's own autotuner works on separate
buffers.""",
    references=(
        "github.com/jax-ml/jax, jaxlib/gpu/triton_kernels.cc (Autotune, Benchmark, TritonKernelCallFfiInitialize)",
        "github.com/jax-ml/jax/pull/35218 (what the launcher restores)",
        "github.com/jax-ml/jax-triton, jax_triton/triton_lib.py (input_output_aliases_with_sizes)",
        "github.com/NVIDIA/TransformerEngine/pull/2814 (aliases that the launcher does not know)",
        "github.com/triton-lang/triton/issues/54, github.com/triton-lang/triton/issues/6547 (the same in PyTorch)",
    ),
    bad=(AUTOTUNED, AUTOTUNED_DONATED),
    good=(AUTOTUNED_OUT_OF_PLACE, ONE_CONFIGURATION),
    check=check,
    reproduced=tuple(
        Reproduction(
            report=report,
            case="autotuned[hidden]",
            reproduced="a kernel with two configurations that overwrites its operand, declared and not",
            missing=missing,
        )
        for report, missing in (
            ("triton-lang/triton#54", "PyTorch; and the wrong numbers, because replay runs no autotuned kernel"),
            (
                "triton-lang/triton#6547",
                "PyTorch, `reset_to_zero` and `restore_value`, which jax-triton ignores",
            ),
            (
                "NVIDIA/TransformerEngine#2814",
                "PyTorch; aliases that are declared to XLA and not to the launcher: jax-triton passes them to both",
            ),
            (
                "jax-ml/jax#35218",
                "the crash of jaxlib's launcher, fixed in March 2026; what it restores was read, not run",
            ),
        )
    ),
)
