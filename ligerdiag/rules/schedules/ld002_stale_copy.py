"""LD002 stale-copy: a reader that should see the kernel's result reads a copy in other bytes, or a value that is
computed again.
"""

from collections.abc import Iterator, Sequence

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.verdict.blame import ReadFinding
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.model.findings import Finding, Severity, Verdict
from ligerdiag.model.schedule_view import Place
from ligerdiag.rules.rule import Reproduction, Rule, RuleKind, make_example, report_outputs, report_read
from ligerdiag.rules.wording import begin_sentence, find_path, find_producer, find_read_operand

_GATHERS = having(Trait.GATHERS)
_PLACES = having(Trait.FORWARDS, Trait.TAKES_ELEMENT)
_KEEPS = having(
    Trait.MOVES,
    Trait.CASTS,
    Trait.HANDS_ON,
    Trait.FORWARDS,
    Trait.TAKES_ELEMENT,
    Trait.MAKES_TUPLE,
    Trait.FROM_NOTHING,
) | {"parameter", "copy-start"}
"""Opcodes whose result holds the operand's numbers, perhaps of another type; those without an operand count, too."""


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each read that misses a hidden write because it does not read the overwritten bytes.

    It reads a copy in other bytes, or a value that is computed again. For each hidden write, there is also a finding
    about the outputs that are stale although no single read is to blame.
    """
    for read in context.verdicts.stale:
        if read.wrong is not None and read.wrong.place is not Place.SAME_BYTES and read.write.output is None:
            yield _report(context, read)
    for write in context.writes:
        names = context.verdicts.list_unexplained(write.index, Verdict.STALE)
        if write.output is None:  # LD022 reports a declared write
            yield from report_outputs(
                context,
                RULE,
                write,
                names,
                lambda some, kernel=write.kernel: (
                    f"{begin_sentence(some, 'does', 'do')} not depend on what `{kernel}` writes"
                ),
            )


def _report(context: Context, read: ReadFinding) -> Finding:
    operand, reader, kernel = find_read_operand(read), read.reader.name, read.write.kernel
    time = context.logical_times.get(read.reader.id)
    if operand is None and _reads_new_contents(context, read):
        how = f"computed by `%{reader}`, which also uses a value from before `{kernel}` wrote"
        sentence = f"%{reader}, at logical time {time}, reads what the kernel wrote, and recomputes an older value"
    elif operand is None:
        how = f"computed by `%{reader}`, which uses nothing that `{kernel}` wrote"
        sentence = f"%{reader}, at logical time {time}, uses nothing that the kernel wrote"
        if _makes_operand(context, read):
            sentence += ": it computes the kernel's operand, before the kernel runs"
    else:
        value = find_producer(operand)
        relation = _relate(context, read, value)
        how = f"computed from `%{value.name}`, which `{kernel}` does not overwrite: {relation}"
        sentence = f"%{reader} reads %{value.name} at logical time {time}: {relation}"
    return report_read(context, RULE, read, f"{begin_sentence(read.outputs, 'is', 'are')} {how}", sentence)


def _reads_new_contents(context: Context, read: ReadFinding) -> bool:
    """Returns whether the reader also reads the overwritten value, after the kernel has run."""
    call = context.optimized_call(read.write)
    if call is None or context.optimized.homes[call.id] is not context.optimized.homes[read.reader.id]:
        return False
    times, value = context.logical_times, find_producer(call.operands[read.write.operand])
    if call.id not in times or times.get(read.reader.id, 0) <= times[call.id]:
        return False
    return any(find_producer(operand) is value for operand in read.reader.operands)


def _makes_operand(context: Context, read: ReadFinding) -> bool:
    call = context.optimized_call(read.write)
    return call is not None and find_producer(call.operands[read.write.operand]) is read.reader


def _relate(context: Context, read: ReadFinding, value: HloInstruction) -> str:
    """Returns a clause on how the kernel's operand was made from the value that is read, or how that value was made from
    the operand.
    """
    call = context.optimized_call(read.write)
    if call is None:
        return "it holds the value from before the write"
    end = find_producer(call.operands[read.write.operand])
    path = find_path(value, end)
    if path:
        steps = ", ".join(f"%{step.name}" for step in path if step.opcode not in _PLACES)
        return f"the kernel's operand is {_describe_making(context, path)} from it by {steps}"
    if find_path(end, value):
        return "it was made from the kernel's operand before the write"
    return "the kernel's operand is another copy of the value"


def _describe_making(context: Context, path: Sequence[HloInstruction]) -> str:
    """Returns the participle for the steps of a path: `gathered` if one of them gathers, `copied or cast` if all of them
    keep the numbers, else `computed`.
    """
    if any(_is_gather(context, step) for step in path):
        return "gathered"
    return "copied or cast" if all(_keeps_numbers(context, step) for step in path) else "computed"


def _keeps_numbers(context: Context, step: HloInstruction) -> bool:
    """Returns whether the instruction, or each one of the computation that it calls, only moves or casts its operand."""
    called = [context.optimized.computations[number].instructions for number in step.called_computations]
    inner = [one.opcode for instructions in called for one in instructions]
    return _KEEPS.issuperset(inner) if called else step.opcode in _KEEPS


def _is_gather(context: Context, step: HloInstruction) -> bool:
    """Returns whether the instruction is a collective that gathers, or starts one asynchronously."""
    callees = (context.optimized.computations[number].root.opcode for number in step.called_computations)
    return not _GATHERS.isdisjoint((step.opcode, *callees))


FOLDED_CONVERT = make_example(
    about="The cast to f32 and back is folded away, so the product reads the bf16 values from before the kernel.",
    code="""\
def step(x, w):
    h = (x @ w).astype(jnp.float32)
    sums = sum_and_double(h)
    return {"sums": sums, "back": h.astype(jnp.bfloat16) @ w.T}


CASE = Case(
    name="folded", function=step, args=(Arg(shape=(8, 16), dtype="bfloat16"), Arg(shape=(16, 32), dtype="bfloat16"))
)
""",
)

ALIASED_BF16 = make_example(
    about="The same casts around a declared output are not folded.",
    declared=True,
    code="""\
def step(x, w):
    h = (x @ w).astype(jnp.float32)
    doubled, sums = sum_and_double_declared(h)
    return {"sums": sums, "back": doubled.astype(jnp.bfloat16) @ w.T}


CASE = Case(
    name="recast", function=step, args=(Arg(shape=(8, 16), dtype="bfloat16"), Arg(shape=(16, 32), dtype="bfloat16"))
)
""",
)

RULE = Rule(
    id="LD002",
    name="stale-copy",
    severity=Severity.ERROR,
    kind=RuleKind.COPY_READ,
    summary="a reader that should see the kernel's result reads a copy, a shard or a recomputed value instead",
    what_it_does="""\
Makes the same comparison as LD001. Here the reader does not touch the bytes that the kernel overwrites at all: it reads
the shard that the kernel's operand was gathered from, a copy, the value before a cast that the compiler folded away, or
it recomputes the value. Running it after the kernel does not help.""",
    why="""\
Even if something forces the order (`add_trivial_operations`, a barrier), the result is stale. Under vocabulary sharding
or FSDP the partitioner gathers the logits into a temporary for the kernel. The kernel overwrites the temporary, and
every reader, although it runs later, reads the untouched original. In bf16 the cast to f32 and back is folded, and
readers get the bf16 logits from before the kernel.""",
    what_to_do="""\
Make the overwritten operand an output of the call and read that output. Under sharding, wrap the call in `shard_map`,
so that XLA gathers no temporary.""",
    limits="""\
If the compiler rewrote the operations between the original and the reader beyond recognition, the finding says that the
write is missing, but not which value was read instead.""",
    references=(
        "github.com/phlippe/liger_kernels (README: not robust on multi-GPU setups)",
        "github.com/openxla/xla/issues/20440",
        "github.com/jax-ml/jax/issues/25399",
    ),
    reproduced=(
        Reproduction(
            report="phlippe/liger_kernels (README: not robust on multi-GPU)",
            case="sharded_flce[vocabulary-trivial]",
            reproduced=(
                "the workaround under a sharded vocabulary: every gradient is stale, read from the shard that was "
                "gathered; the same on two H200s"
            ),
            missing="the training of a Llama, which the README mentions",
        ),
        Reproduction(
            report="openxla/xla#20440",
            case="barrier_copy[plain-barrier]",
            reproduced="the program, with the barrier; compiled for a GPU it copies nothing, so there is nothing to order",
            missing="the two copies before the update, which only XLA:CPU makes",
        ),
        Reproduction(
            report="jax-ml/jax#25399",
            case="barrier_copy[kernel-barrier]",
            reproduced=(
                "a copy that XLA makes of the overwritten value, after a barrier: it is made after the "
                "kernel, and fresh. Without the barrier, `barrier_copy[kernel-hidden]`, one output is stale"
            ),
            missing="a barrier that a copy defeats: none was found on a GPU",
        ),
    ),
    bad=(FOLDED_CONVERT,),
    good=(ALIASED_BF16,),
    check=check,
    explains=Verdict.STALE,
)
