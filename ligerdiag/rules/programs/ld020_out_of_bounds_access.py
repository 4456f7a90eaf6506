"""LD020 out-of-bounds-access: a kernel loads or stores outside the bytes of its operand or output."""

from collections.abc import Iterator
from dataclasses import replace

from ligerdiag.analysis.context import Context
from ligerdiag.hlo.buffers import find_hit
from ligerdiag.model.findings import Finding, LaunchNumbers, MemoryOperation, OutsideAccess, Severity
from ligerdiag.rules.rule import DecidedBy, Measured, Party, Rule, make_example
from ligerdiag.rules.wording import name_buffer
from ligerdiag.text import count_of

_VERBS = {MemoryOperation.LOAD: "reads", MemoryOperation.STORE: "writes", MemoryOperation.ATOMIC: "updates"}


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each access of a kernel that is outside of its buffer for all data."""
    for call, effects in context.optimized_calls:
        for number, use in enumerate((*effects.operand_uses, *effects.output_uses)):
            for one in use.outside:
                access = replace(one, buffer=number)
                hit = find_hit(access, call, context.optimized, context.buffers, context.positions)
                launch = LaunchNumbers(
                    kernel=effects.kernel, instruction=call.name, launches=0, operands=len(effects.operands)
                )
                yield _report(launch, replace(access, hit=hit), "kernel")


def measure(measured: Measured) -> Iterator[Finding]:
    """Yields a finding for each access outside of a buffer that a replay observes.

    Also yields the findings of `check` about accesses that the replay does not observe.
    """
    numbers = measured.numbers
    seen = [
        _report(launch, access, "replay")
        for launch in (numbers.launches if numbers is not None else ())
        for access in launch.outside
    ]
    same = {_identify(finding) for finding in seen}
    yield from (finding for finding in measured.findings_of(RULE.id) if _identify(finding) not in same)
    yield from seen


def _identify(finding: Finding) -> tuple[object, ...]:
    line = None if finding.source is None else (finding.source.file, finding.source.line)
    return finding.instructions, finding.message, line


def _report(launch: LaunchNumbers, access: OutsideAccess, label: str) -> Finding:
    return Finding(
        rule=RULE.id,
        severity=RULE.severity,
        message=f"`{launch.kernel}` {_VERBS[access.kind]} {_name(launch, access)}{_LATER if access.is_later else ''}",
        source=access.line,
        kernel=launch.kernel,
        operand=access.buffer if access.buffer is not None and access.buffer < launch.operands else None,
        instructions=(launch.instruction,),
        evidence=tuple(_describe(launch, access, label)),
        help="mask the lanes outside, or pass the kernel the size of its operand",
    )


_LATER = " in a second execution on the same constants"


def _name(launch: LaunchNumbers, access: OutsideAccess) -> str:
    return (
        "memory of no operand or output" if access.buffer is None else f"outside {name_buffer(launch, access.buffer)}"
    )


def _describe(launch: LaunchNumbers, access: OutsideAccess, label: str) -> Iterator[tuple[str, str]]:
    where = f"byte {access.first_byte}"
    if access.buffer is not None and access.first_byte % access.width == 0:
        where = f"index {access.first_byte // access.width}"
        where += f" of {count_of(access.size // access.width, 'element')} of {access.width} bytes"
    elements = count_of(access.elements, "element")
    total = f"{elements} in all" if label == "replay" else f"at least {elements}, whatever the data"
    first = "; the first execution stays inside" if access.is_later else ""
    yield label, f"grid program {access.program} of %{launch.instruction} does so first, at {where}; {total}{first}"
    if access.buffer is not None:
        if access.hit is None:
            yield "bytes", "it is unknown whose bytes these are: XLA's buffer assignment does not place the buffer"
            return
        whose = "its own output" if access.hit == launch.instruction else f"%{access.hit}" if access.hit else "no value"
        yield "bytes", f"in XLA's buffer assignment these bytes belong to {whose}"


PAST_THE_END = make_example(
    about="The blocks cover 128 elements, the operand has 100, and nothing masks the last block.",
    code="""\
@triton.jit
def negate_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, -tl.load(x_ptr + at))


def step(x):
    negative = jt.triton_call(x, kernel=negate_kernel, out_shape=x, grid=(triton.cdiv(x.size, 64),), BLOCK=64)
    return {"negative": negative}


CASE = Case(name="past_the_end", function=step, args=(Arg(shape=(100,)),))
""",
)

NEXT_ROW = make_example(
    about="Each program reads the row below its own; below the last row XLA has put what the kernel writes.",
    code="""\
@triton.jit
def difference_kernel(x_ptr, out_ptr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(out_ptr + at, tl.load(x_ptr + at + COLUMNS) - tl.load(x_ptr + at))


def find_change(x):
    return jt.triton_call(x, kernel=difference_kernel, out_shape=x, grid=x.shape[:1], COLUMNS=x.shape[1])


def step(x):
    return {"one": find_change(jnp.sin(x)).sum(), "other": find_change(jnp.cos(x)).sum()}


CASE = Case(name="next_row", function=step, args=(Arg(shape=(8, 64)),))
""",
)

MASKED = make_example(
    about="The lanes past the end are masked, in the load and in the store.",
    code="""\
@triton.jit
def negate_kernel(x_ptr, out_ptr, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, -tl.load(x_ptr + at, mask=at < SIZE), mask=at < SIZE)


def step(x):
    grid = (triton.cdiv(x.size, 64),)
    return {"negative": jt.triton_call(x, kernel=negate_kernel, out_shape=x, grid=grid, SIZE=x.size, BLOCK=64)}


CASE = Case(name="masked", function=step, args=(Arg(shape=(100,)),))
""",
)


RULE = Rule(
    id="LD020",
    name="out-of-bounds-access",
    severity=Severity.ERROR,
    party=Party.KERNEL,
    summary="a kernel reads or writes outside its operands and outputs",
    what_it_does="""\
Replay checks each address of each load, store and atomic operation against the bytes of the operand or output that the
pointer was made from. It reports accesses outside once for each operation of the kernel: the operand or output, the
first program and index, the number of elements, the kernel's line, and the value that XLA's buffer assignment has in
these bytes. For buffers that the kernel writes, the rule also follows the address arithmetic for all programs of the
launch, and finds accesses that are outside whatever the data without a replay.""",
    why="""\
XLA packs values closely: past the end of an operand there is another value of the same program, or memory of nobody. A
load returns a number that changes with the next compile, a store changes another value without a trace in any operand,
and either may end the program with an illegal address.""",
    what_to_do="""\
Mask the lanes outside, in the load and in the store; or pad the operand, and give it the padded shape. If the kernel
takes a size or a stride, compare it with the operand's.""",
    limits="""\
Without replay, the rule covers neither loads from buffers that the kernel only reads nor addresses that depend on data.
With replay, the finding holds for the drawn inputs, and for the operand that a pointer was made from: an access that
leaves its operand is outside even if it hits another operand of the call. The rule does not ask whether the loaded
value matters. Replay loads zero there and drops the stores, so its numbers are not what a GPU gives, and the verdicts
do not take these accesses into account.""",
    references=("docs.nvidia.com/compute-sanitizer (memcheck: the same on a GPU, by allocation)",),
    bad=(PAST_THE_END, NEXT_ROW),
    good=(MASKED,),
    check=check,
    measure=measure,
    decided_by=DecidedBy.REPLAY,
)
