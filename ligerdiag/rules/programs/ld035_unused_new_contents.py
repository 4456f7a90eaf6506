"""LD035 unused-new-contents: a call declares its write, but nothing uses the new contents, and the old contents are read
later.
"""

from collections.abc import Iterator

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.unused_contents import UnusedContents, find_unused_contents
from ligerdiag.hlo.custom_calls import CallTrait, has_trait
from ligerdiag.hlo.module import find_user_line
from ligerdiag.model.findings import CallPlace, Finding, ReadPlace, Severity
from ligerdiag.rules.rule import ALIASED, Rule, RuleKind, make_example
from ligerdiag.rules.way_to_readers import find_way_to
from ligerdiag.rules.wording import JAX_TRITON, describe_callers, is_in_backward, locate_instruction, render_at
from ligerdiag.text import count_of, join_words

_MOST_READERS = 4


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each declared write whose new contents are unused and whose old contents are read later."""
    if context.program is context.optimized:
        return  # without the program as written, nobody knows what the author reads
    effects = {call.id: one for call, one in context.calls}
    for found in find_unused_contents(context.program, effects):
        yield _report(context, found)


def _report(context: Context, found: UnusedContents) -> Finding:
    path = context.program.find_tag_path(found.call)
    call = locate_instruction(context.program, found.call, context.sites.get(path[-1]) if path else None)
    reads = _find_reads(context, found)
    kernel, number = found.effects.kernel, found.operand
    return Finding(
        rule=RULE.id,
        severity=RULE.severity,
        message=(
            f"nothing uses the new contents of operand {number} that `{kernel}` writes, and the old contents are read after"
            " the call"
        ),
        source=call.line,
        kernel=kernel,
        operand=number,
        instructions=(found.call.name, *(one.name for one in found.readers[:_MOST_READERS])),
        evidence=(*describe_callers(call), *_describe_reads(reads)),
        help=_advise(found, call, reads),
    )


def _find_reads(context: Context, found: UnusedContents) -> tuple[ReadPlace, ...]:
    """Returns the places of the readers, each once. The line of a place is None if the reader is an output of the
    program, or if its line is unknown.
    """
    root, places = context.program.entry.root, dict[ReadPlace, None]()
    for reader in found.readers:
        line = None if reader is root else find_user_line(context.program, reader)
        places[ReadPlace(line=line, in_backward=line is not None and is_in_backward(reader))] = None
    return tuple(places)


def _describe_reads(reads: tuple[ReadPlace, ...]) -> Iterator[tuple[str, str]]:
    for read in reads[:_MOST_READERS]:
        if read.line is None:
            yield "read", "the old contents, by an output of the program or at an unknown line"
        else:
            yield "read", f"the old contents, after the call{render_at(read.line, in_backward=read.in_backward)}"
    if len(reads) > _MOST_READERS:
        yield "read", f"{count_of(len(reads) - _MOST_READERS, 'more place')}"


def _advise(found: UnusedContents, call: CallPlace, reads: tuple[ReadPlace, ...]) -> str:
    target = found.call.proto.custom_call_target
    value = "the output that aliases the operand"
    if has_trait(target, JAX_TRITON):
        value = (
            "the value that the call returns, or the Ref after the call"
            if _may_be_ref(target)
            else "the returned value"
        )
    through, places = find_way_to(call, reads)
    names = join_words([f"`{one}`" for one in through])
    there = f": return it from {names}, unless that is done already, and use it in {places}" if places else ""
    one = "reader means" if len(reads) == 1 else "readers mean"
    return f"if the {one} the new contents, use {value}{there}; if the old ones, change nothing"


def _may_be_ref(target: str) -> bool:
    return has_trait(target, CallTrait.JAX_TRITON_FFI)


_KEPT = """\
def step(x, w):
    h = x @ w
    {doubled}, sums = sum_and_double_declared(h)
    return {{"sums": sums, "back": {read} @ w.T}}


CASE = Case(name="{name}", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))))
"""

DISCARDED = make_example(
    about="The write is declared, but the caller drops the doubled rows and continues with `h`, which holds the old ones.",
    declared=True,
    code=_KEPT.format(doubled="_", read="h", name="discarded"),
)

DROPPED_BY_A_WRAPPER = make_example(
    about="A wrapper drops the new contents, and its caller reads the name that it passed in.",
    declared=True,
    code="""\
def sum_rows(h):
    _, sums = sum_and_double_declared(h)
    return sums


def step(chunks, w):
    def body(total, x):
        h = x @ w
        sums = sum_rows(h)
        return total + sums.sum(), h @ w.T  # h is meant to be doubled by now

    total, back = jax.lax.scan(body, 0.0, chunks)
    return {"total": total, "back": back}


CASE = Case(name="half_a_cure", function=step, args=(Arg(shape=(4, 8, 16)), Arg(shape=(16, 32))))
""",
)

SCRATCH = make_example(
    about="The operand is scratch memory: nobody reads it after the call.",
    declared=True,
    code="""\
def step(x, w):
    _, sums = sum_and_double_declared(x @ w)
    return {"sums": sums}


CASE = Case(name="scratch_rows", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))))
""",
)

READ_BEFORE = make_example(
    about="The old rows are read before the call only.",
    declared=True,
    code="""\
def step(x, w):
    h = x @ w
    back = h @ w.T
    _, sums = sum_and_double_declared(h)
    return {"sums": sums, "back": back}


CASE = Case(name="read_before", function=step, args=(Arg(shape=(8, 16)), Arg(shape=(16, 32))))
""",
)

RULE = Rule(
    id="LD035",
    name="unused-new-contents",
    severity=Severity.NOTE,
    kind=RuleKind.QUESTION,
    summary="a declared write whose new contents nobody uses, although the old ones are read after the call",
    what_it_does="""\
Looks, in the program as written, for calls that declare a write (an aliased output, `call_in_place`, or a Ref) and whose
aliased output no operation uses and the program does not return, while an operation after the call reads what the
operand held before it. A constant, such as an array of zeros, is scratch memory and does not count.""",
    why="""\
A declared write leaves the operand's name with its old contents. A program that passes the call a value, drops what the
call returns and continues with that value is right by definition, and every output is fresh. If its author moved from a
hidden write to `call_in_place` and did not change the readers, they now surely read the old contents.""",
    what_to_do="""\
If the readers mean the new contents, use the value that the call returns after its outputs; a wrapper has to return it.
If they mean the old contents, there is nothing to do, and XLA copies the operand for the kernel.""",
    limits="""\
A note: it changes neither a verdict nor the status of a case, because only the author knows which contents are meant, and
an exit status only with `--fail-on note`. A reader
that comes before the call in program order does not count, nor does one that a loop runs in its next iteration.""",
    references=("docs/troubleshooting.md",),
    bad=(DISCARDED, DROPPED_BY_A_WRAPPER),
    good=(ALIASED, SCRATCH, READ_BEFORE),
    check=check,
)
