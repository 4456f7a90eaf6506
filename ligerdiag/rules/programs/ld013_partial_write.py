"""LD013 partial-write: a kernel does not write all elements of an output, so the others hold arbitrary contents."""

from collections.abc import Iterator
from dataclasses import replace

from ligerdiag.analysis.context import Context
from ligerdiag.analysis.dependents import find_dependents, name_reached
from ligerdiag.effects.access import Access, WriteCoverage
from ligerdiag.effects.call import carries_kernel
from ligerdiag.hlo.custom_calls import ALLOCATES
from ligerdiag.hlo.module import HloInstruction, HloModule, find_user_line
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.shape import ShapeIndex, iterate_leaves
from ligerdiag.model.findings import Finding, LaunchNumbers, Severity
from ligerdiag.rules.rule import ALIASED, DecidedBy, Measured, Party, Reproduction, Rule, make_example

_BROKEN = "LD022"
_NOT_WRITTEN = frozenset({Access.NONE, Access.READ})
HELP = "write every element, or alias the output to an operand that holds the values to keep"


def check(context: Context) -> Iterator[Finding]:
    """Yields a finding for each output of which a kernel leaves elements unwritten, as its IR proves."""
    for call, effects in context.calls:
        aliased = set(call.operand_output_aliases.values())
        leaves = iterate_leaves(call.shape)
        for output, (leaf, use) in enumerate(zip(leaves, effects.output_uses, strict=False)):
            is_empty = min(effects.grid) == 0 and use.coverage is WriteCoverage.NONE
            is_left = (
                use.coverage is WriteCoverage.NONE
                and effects.outputs[output] in _NOT_WRITTEN
                and carries_kernel(call.proto.custom_call_target)
            )
            if not (is_empty or is_left or use.coverage is WriteCoverage.PARTIAL) or leaf in aliased:
                continue
            reach = find_dependents(context, context.program, call, [leaf])
            if not reach.is_used:
                continue
            is_whole = use.coverage is WriteCoverage.NONE
            grid = " x ".join(map(str, effects.grid))
            why = f"the programs of grid {grid} do not store to all of output {output}, whatever the data"
            if is_whole:
                why = f"{_NOTHING} output {output}: it holds whatever was in that memory"
            yield Finding(
                rule=RULE.id,
                severity=RULE.severity,
                message=f"`{effects.kernel}` leaves elements of its output {output} unwritten",
                outputs=name_reached(context, reach),
                source=find_user_line(context.program, call),
                kernel=effects.kernel,
                instructions=(call.name,),
                evidence=(
                    (
                        "kernel",
                        f"the grid is {grid}: no program runs, and CUDA refuses the launch" if is_empty else why,
                    ),
                    *([_CUT] if not is_empty and _is_cut(context.program, call, leaf) else []),
                ),
                help=HELP,
            )


_NOTHING = "nothing in the kernel writes"
_CUT = ("readers", "the program reads only slices of this output, at constant offsets")
_HANDS_ON = having(Trait.SAME_ELEMENTS | Trait.BARRIER)


def _is_cut(program: HloModule, call: HloInstruction, leaf: ShapeIndex) -> bool:
    """Returns whether the program uses this result of the call only through slices at constant offsets. leaf: index of
    the result.
    """
    home = next(home for home, one in program.iterate_custom_calls() if one.id == call.id)
    waiting, slices = [call], 0
    while waiting:
        value = waiting.pop()
        if value.id == home.root.id:
            return False
        for user in home.users[value.id]:
            if user.opcode == "get-tuple-element":
                waiting += [user] if user.proto.tuple_index == leaf[0] else []
            elif user.opcode in _HANDS_ON:
                waiting.append(user)
            elif user.opcode == "slice":
                slices += 1
            else:
                return False
    return slices > 0


def measure(measured: Measured) -> Iterator[Finding]:
    """Yields the findings of `check` with the number of unwritten elements added.

    Also yields a finding for each output in which only a replay finds unwritten elements. An output of the kernel has no
    finding if, on the drawn inputs, no output of the program depends on the unwritten elements. But a finding of `check`
    is dropped only if the program reads the output by nothing but slices at constant offsets. In any other case, the
    inputs of one replay prove nothing, and the finding stays.
    """
    numbers = measured.numbers
    counted: dict[tuple[str, int], tuple[LaunchNumbers, int, int]] = {}
    broken = {name for finding in measured.findings_of(_BROKEN) for name in finding.instructions}
    for launch in numbers.launches if numbers is not None else ():
        if launch.instruction in broken or launch.kernel == ALLOCATES:
            continue  # LD022 reports an alias that XLA broke, LD025 memory that nobody writes
        for output, (unwritten, elements) in launch.unwritten.items():
            if unwritten:
                worst = counted.get((launch.instruction, output))
                if worst is None or unwritten > worst[1]:
                    counted[launch.instruction, output] = (launch, unwritten, elements)
    for finding in measured.findings_of(RULE.id):
        found = _add_count(finding, counted)
        if found is not None:
            yield found
    for (_, output), (launch, unwritten, elements) in counted.items():
        if launch.reached_by_garbage == ():
            continue
        yield Finding(
            rule=RULE.id,
            severity=RULE.severity,
            message=_render_count(launch, output, unwritten, elements),
            outputs=launch.reached_by_garbage or (),
            source=launch.line,
            kernel=launch.kernel,
            instructions=(launch.instruction,),
            evidence=(_describe_launch(launch, output),),
            help=HELP,
        )


def _add_count(finding: Finding, counted: dict[tuple[str, int], tuple[LaunchNumbers, int, int]]) -> Finding | None:
    """Returns the finding with the number of unwritten elements of its output, and removes that output from `counted`;
    returns the finding unchanged if `counted` lacks the output. Returns None if no output of the program depends on
    these elements, and the program uses the result through slices at constant offsets alone.

    counted: from (instruction name, output number) to (the launches' record, unwritten elements, all elements).
    """
    for (instruction, output), (launch, unwritten, elements) in counted.items():
        if launch.kernel == finding.kernel and finding.message.endswith(f" its output {output} unwritten"):
            del counted[instruction, output]
            if launch.reached_by_garbage == () and _CUT in finding.evidence:
                return None
            message = _render_count(launch, output, unwritten, elements)
            reached = launch.reached_by_garbage
            if reached is None or any(text.startswith(_NOTHING) for _, text in finding.evidence):
                reached = tuple(dict.fromkeys((*finding.outputs, *(reached or ()))))
            evidence = (*finding.evidence, _describe_launch(launch, output))
            return replace(finding, message=message, outputs=reached, evidence=evidence)
    return finding


def _render_count(launch: LaunchNumbers, output: int, unwritten: int, elements: int) -> str:
    when = ", in a second execution on the same constants" if output in launch.unwritten_later else ""
    return f"`{launch.kernel}` leaves {unwritten} of {elements} elements of its output {output} unwritten{when}"


def _describe_launch(launch: LaunchNumbers, output: int) -> tuple[str, str]:
    first = "; the first execution writes them" if output in launch.unwritten_later else ""
    return "replay", f"%{launch.instruction}, worst of {launch.launches} launches{first}"


HALF_WRITTEN = make_example(
    about="The grid covers half of the output's rows.",
    code="""\
@triton.jit
def copy_kernel(x_ptr, out_ptr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(out_ptr + at, tl.load(x_ptr + at))


def step(x):
    copy = jt.triton_call(x, kernel=copy_kernel, out_shape=x, grid=(x.shape[0] // 2,), COLUMNS=x.shape[1])
    return {"copy": copy}


CASE = Case(name="half_written", function=step, args=(Arg(shape=(8, 32)),))
""",
)

NO_PROGRAM = make_example(
    about="The grid is rounded down to no program at all.",
    code=HALF_WRITTEN.code.replace("// 2,", "// 16,").replace("half_written", "no_program"),
)

RULE = Rule(
    id="LD013",
    name="partial-write",
    severity=Severity.WARNING,
    leaves_undefined=True,
    party=Party.KERNEL,
    summary="a kernel does not write all elements of its output",
    what_it_does="""\
Follows the addresses and masks of every store for all programs of the launch's grid, and reports an output that they
cannot cover whatever the data. Replay also runs each kernel of the schedule and counts, for each output, the elements
that no program of its grid stored to. An output that aliases an operand holds the operand's values there, and is not
counted.""",
    why="""\
XLA assumes that the kernel writes all of an output. Unwritten elements hold whatever was in those bytes before: zeros
in a test, somebody else's activations in a training run, NaN once in a while.""",
    what_to_do="""\
Make the grid and the masks cover the output; or alias the output to an operand that holds the values to keep.""",
    limits="""\
If stores depend on data, the rule needs a replay, and the finding holds for the drawn inputs. An output that no other
operation uses, or only operations that reach no output of the program, is not reported. Padding that the program slices
off at a constant offset, and elements that are unwritten depending on data, are not reported if replay finds that no
output depends on their contents. Without a replay, and if readers choose their elements in another way, they are
reported: that is why this is a warning. An output of the program that depends on the unwritten contents is never called
fresh.""",
    references=("github.com/jax-ml/jax/issues/20227", "github.com/jax-ml/jax/issues/24023"),
    reproduced=(
        Reproduction(
            report="jax-ml/jax#20227",
            case="partial_write[range-pallas-out_of_place]",
            reproduced=(
                "the Pallas kernel that stores elements 1 to 3 of 4: found in its IR. For its twin in Triton, replay "
                "counts two elements that nobody stores"
            ),
            missing="the contents of the others: on a GPU they depend on who used the bytes before",
        ),
        Reproduction(
            report="jax-ml/jax#24023",
            case="partial_write[nothing-pallas-aliased]",
            reproduced=(
                "the kernel that stores nothing to two aliased outputs; on a GPU these hold the inputs, and nothing is "
                "reported"
            ),
            missing="the zeros, which only a TPU gives",
        ),
    ),
    bad=(HALF_WRITTEN, NO_PROGRAM),
    good=(ALIASED,),
    check=check,
    measure=measure,
    decided_by=DecidedBy.REPLAY,
)
