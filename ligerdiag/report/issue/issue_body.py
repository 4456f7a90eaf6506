"""Renders the body of a bug report as Markdown: what is wrong, the program, expected and actual values, the versions, the
lines of the schedule, what changes the result, and how to reproduce it.

Everything in it was measured or computed in this run. Numbers come from a replay on the CPU or from a device, and the text
says from which. The body also lists the steps that were not tried. The body uses none of ligerdiag's own terms, because its
readers maintain XLA, JAX, jax-triton or a kernel, and have never heard of ligerdiag.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, isnan

from ligerdiag.model.findings import (
    VERDICT_ORDER,
    Attribution,
    DeviceRun,
    Finding,
    OutputNumbers,
    Replay,
    ReplayState,
    Verdict,
)
from ligerdiag.model.report import CaseReport
from ligerdiag.package_metadata import compute_version
from ligerdiag.report.comparisons import Axis, Bisection, BisectionRow
from ligerdiag.report.issue.hlo_excerpt import render_excerpt
from ligerdiag.report.issue.issue_subject import IssueSubject
from ligerdiag.report.issue.issue_words import IssueWords, describe_subject, name_outputs
from ligerdiag.report.issue.program_imports import uses_in_functions
from ligerdiag.report.markdown import render_block, render_code, render_prose, render_table
from ligerdiag.report.relative_errors import compute_worst, render_figure
from ligerdiag.report.rule_page import compute_rule_address
from ligerdiag.rules.registry import get_rule
from ligerdiag.rules.rule import DecidedBy, RuleKind
from ligerdiag.source_text import strip_folders
from ligerdiag.text import compute_printable, count_of, join_words, render_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramPart:
    """The lines of one file that the program runs."""

    name: str
    """Path of the file, relative to the project."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramSource:
    """The program that shows the bug."""

    name: str
    """Path of the program's file, relative to the current folder or the project."""
    text: str
    is_standalone: bool = False
    """Whether the file runs without ligerdiag, and checks its own result."""
    others: tuple[str, ...] = ()
    """Names of modules of the same project that the file imports."""
    parts: tuple[ProgramPart, ...] = ()
    """The parts of the project's files to show in place of the whole file, that of the file itself first; () for the whole
    file.
    """

    @property
    def is_long(self) -> bool:
        """Returns whether the file is so long that the report quotes only the parts that the program runs."""
        return bool(self.others) or self.text.count("\n") > _FOLDED_FROM


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueFacts:
    """The facts in a bug report that do not come from the report of the run."""

    program: ProgramSource | None
    """The program to show; None if the module was compiled elsewhere."""
    versions: Mapping[str, str]
    """Maps the name of a package to its version; `python` is one of them."""
    is_ours: bool = True
    """Whether the module was compiled for this report, for a GPU that was described to XLA; false for a dump."""
    system: str = ""
    """The operating system and the processor, such as `Linux x86_64`."""
    xla_flags: str = ""
    """The environment variable XLA_FLAGS with which the program was compiled."""
    options: Mapping[str, str] = field(default_factory=dict[str, str])
    """The compiler options that were set in addition to XLA_FLAGS, by name."""
    driver: str = ""
    """Version of the driver of the GPUs on which the program ran; empty if nothing ran or it is unknown."""
    device_count: int = 1
    attached: tuple[str, ...] = ()
    """Names of the files to attach."""
    commands: tuple[str, ...] = ()
    """The commands that reproduce the result."""
    bisections: tuple[Bisection, ...] = ()
    """The bisections; each one varies one property of the compile, to find what changes the result."""


_FOLDED_FROM = 60
"""Number of lines from which on the program is folded."""
_MOST_PROGRAM_LINES = 400
_MOST_OUTPUTS = 6
_MOST_LOG_LINES = 30
_TRIED = {
    Axis.PASSES: "XLA's passes",
    Axis.FLAGS: "XLA's flags",
    Axis.TARGETS: "other GPUs",
    Axis.TOOLCHAINS: "other versions",
}
"""The axes of `bisect` that may change the result of an unchanged program, and what they vary."""


def render_issue(subject: IssueSubject, facts: IssueFacts) -> str:
    """Returns the body of a bug report with a final newline; its first line is the title."""
    case, finding = subject.case, subject.finding
    words = describe_subject(subject)
    parts = [
        f"# {render_prose(words.title)}",
        *map(render_prose, words.sentences),
        *_render_program(facts, case, finding),
        "## Expected and actual",
        *_render_values(case, finding),
        "## Versions",
        render_block(_list_versions(case, facts)),
        *_render_schedule(case, finding, facts),
        "## What changes it",
        *_render_changes(facts.bisections, finding, tuple(case.outputs)),
        *_render_commands(facts, case),
        "## To whom",
        f"To {_address(words, finding)}. {render_prose(words.reason)}",
        _render_origin(finding),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _address(words: IssueWords, finding: Finding | None) -> str:
    kernel = f" {render_code(finding.kernel)}" if finding is not None and finding.kernel else ""
    return f"{words.addressee.value}{kernel if words.addressee.value.endswith('kernel') else ''}"


def _render_program(facts: IssueFacts, case: CaseReport, finding: Finding | None) -> list[str]:
    heading, program = "## Program", facts.program
    if program is None:
        return [heading, "This report has no program, only the module that XLA made of it."]
    lines = program.text.expandtabs().splitlines()
    name = render_code(program.name)
    count = sum(one.text.count("\n") for one in program.parts)
    if program.parts and count <= _MOST_PROGRAM_LINES:
        said = f"What the program runs of {name}"
        if len(program.parts) > 1:
            said += f" and {count_of(len(program.parts) - 1, 'other file')} of the project"
        blocks = [
            _fold(
                render_block([f"# {compute_printable(one.name)}", *one.text.expandtabs().splitlines()], "python"), one
            )
            for one in program.parts
        ]
        return [heading, f"{said} (`ligerdiag reduce` makes one file of it):", *blocks]
    if len(lines) > _MOST_PROGRAM_LINES:
        return [heading, f"{name} has {len(lines)} lines: attach the file, or reduce it with `ligerdiag reduce`."]
    block = _fold(render_block(lines, "python"), program)
    return [heading, f"{name} {_describe_needs(program, case, finding)}:", block]


def _fold(block: str, program: ProgramSource | ProgramPart) -> str:
    """Returns the block of a program; one of many lines is folded."""
    count = len(program.text.splitlines())
    return block if count <= _FOLDED_FROM else f"<details><summary>{count} lines</summary>\n\n{block}\n\n</details>"


def _describe_needs(program: ProgramSource, case: CaseReport, finding: Finding | None) -> str:
    if program.is_standalone:
        return f"needs only the packages below. {_describe_assertion(case, finding)}"
    if program.others:
        names = join_words([render_code(name) for name in program.others])
        return f"imports {names} of the same project, which this report lacks (`ligerdiag reduce` makes one file of it)"
    if uses_in_functions(program.text, "ligerdiag"):
        return "uses ligerdiag (`pip install ligerdiag`) in its functions"
    return "imports ligerdiag only to declare the arguments; no function uses it"


def _describe_assertion(case: CaseReport, finding: Finding | None) -> str:
    """Returns what a reduced program does by itself; it promises a failure only if an output is wrong."""
    if finding is None:
        return "It compiles the function, and should end with the error"
    if get_rule(finding.rule).kind is RuleKind.COPY:
        return "It asserts that the optimized module has no copy, and should fail on a GPU"
    compares = "It compares the compiled function with its operations one after the other"
    numbers = case.replay.outputs.values() if case.replay is not None and case.replay.state is ReplayState.DONE else ()
    is_wrong = any(verdict.is_wrong for verdict in case.outputs.values())
    if any(one.attribution.is_wrong for one in numbers) or (is_wrong and not numbers):
        return f"{compares}, and should fail on a GPU"
    if any(one.attribution not in _RIGHT for one in numbers):
        return f"{compares}, and may fail on a GPU"
    same = "In this schedule both have the same values"
    if not numbers or any(one.attribution is not Attribution.FRESH for one in numbers):
        same = "No output is known to be wrong in this schedule"
    if get_rule(finding.rule).kind is RuleKind.LUCKY_READ:
        return f"{compares}. {same}: on a GPU it fails only if the order is another one there"
    return f"{compares}. {same}: it need not fail on a GPU"


def _render_values(case: CaseReport, finding: Finding | None) -> list[str]:
    if finding is None:
        log = strip_folders(case.log_tail).splitlines()[-_MOST_LOG_LINES:]
        said = f"Expected: the program compiles for {render_code(case.target)}. Actual: {render_code(case.error)}"
        return [said, *([render_block(log)] if log else [])]
    parts = [*_render_replay(case, finding), *_render_device(case.device, finding)]
    memory = case.memory
    if memory is not None and memory.copied and not finding.outputs:
        parts.append(f"Each call of the program copies {render_bytes(memory.copied)}; a copy is not in the program.")
    return parts


def _render_replay(case: CaseReport, finding: Finding) -> list[str]:
    replay = case.replay
    if replay is None:
        return ["No numbers: nothing was executed, and what is said here follows from the schedule alone."]
    if replay.state is not ReplayState.DONE:
        why = f" ({render_code(replay.reason)})" if replay.reason else ""
        stand_in = _render_stand_in(replay, finding)
        rest = "" if stand_in else " What is said here follows from the schedule alone."
        return [f"No values from the CPU: {replay.state.value}{why}.{rest}", *stand_in]
    numbers = _choose_numbers(replay, finding)
    if not numbers:
        return [_explain_without_numbers(replay, finding)]
    heading = ("output", "dtype and shape", "element", "expected", "actual", "relative error", "tolerance")
    rows = [_list_cells(name, one) for name, one in list(numbers.items())[:_MOST_OUTPUTS]]
    left = [f"… and {len(numbers) - _MOST_OUTPUTS} more outputs."] if len(numbers) > _MOST_OUTPUTS else []
    cut = ["Of the most expensive loop only the first iterations ran."] if replay.cut else []
    return [render_table(heading, rows), *left, _WHERE_FROM, *cut]


def _explain_without_numbers(replay: Replay, finding: Finding) -> str:
    """Returns what a finding without a wrong output says, as far as numbers can tell."""
    rule = get_rule(finding.rule)
    if rule.kind is RuleKind.CALLER_WRITE and (replay.changed_inputs or replay.second_run):
        changed = [f"{share:.0%} of the argument {render_code(name)}" for name, share in replay.changed_inputs.items()]
        again = [
            f"{render_code(name)} has another value in a second execution (relative difference {render_figure(error)})"
            for name, error in replay.second_run.items()
        ]
        said = [*([f"{join_words(changed)} changed"] if changed else []), *again]
        return f"Executed on the CPU in this schedule, not on a GPU: {'; '.join(said)}. Expected: this does not happen."
    if rule.decided_by is DecidedBy.REPLAY or rule.leaves_undefined:
        return f"Executed on the CPU, not on a GPU: {render_prose(finding.message)}. Expected: this does not happen."
    if rule.kind is RuleKind.COPY:
        return "Expected: no copy. The copy is in the schedule; the values of the outputs are right."
    names = finding.outputs or tuple(replay.outputs)
    if any(replay.outputs[name].attribution is Attribution.UNDECIDED for name in names if name in replay.outputs):
        return "The numbers of this run decide nothing; what is said here follows from the schedule alone."
    return (
        "On the inputs of this run, executed on the CPU in this schedule, the outputs have the expected values; what is said"
        " here follows from the schedule alone."
    )


def _render_stand_in(replay: Replay, finding: Finding) -> list[str]:
    """Returns the outputs that are wrong in an execution with other functions instead of the kernels; empty if it was not
    done.
    """
    opaque = replay.opaque
    if opaque is None or opaque.state is not ReplayState.DONE:
        return []
    wrong = {name: one for name, one in opaque.outputs.items() if one.attribution not in _RIGHT}
    said = [
        f"{render_code(name)} ({'not finite' if isnan(one.error) else f'relative error {render_figure(one.error)}'})"
        for name, one in wrong.items()
        if not finding.outputs or name in finding.outputs
    ]
    if not said:
        return []
    kernels = join_words([render_code(name) for name in opaque.kernels])
    return [
        f"Executed on the CPU in this schedule, with a stand-in for {kernels} that reads and writes the same buffers, these"
        f" outputs are wrong: {join_words(said[:_MOST_OUTPUTS])}. The figures are those of the stand-in."
    ]


_WHERE_FROM = (
    "Both were computed on the CPU, not on a GPU, for the arguments of ligerdiag's replay; others give other values. "
    "*Expected* is the program, one operation after the other, every write of a kernel visible to what comes after it. "
    "*Actual* is XLA's optimized module, one instruction after the other in the order of its schedule, on the bytes of its "
    "buffer assignment. The element is the one that differs most; the error is that of the whole output, "
    "`||actual - expected|| / ||expected||`, and rounding explains up to the tolerance."
)


def _choose_numbers(replay: Replay, finding: Finding) -> Mapping[str, OutputNumbers]:
    """Returns the numbers of the wrong outputs that the finding reaches; of all wrong outputs if it names none."""
    wrong = {name: one for name, one in replay.outputs.items() if one.attribution not in _RIGHT}
    return {name: one for name, one in wrong.items() if not finding.outputs or name in finding.outputs}


_RIGHT = (Attribution.FRESH, Attribution.UNDECIDED)


def _list_cells(name: str, numbers: OutputNumbers) -> tuple[str, ...]:
    worst = numbers.worst
    place = ("", "", "", "")
    if worst is not None:
        shape = f"{worst.dtype}[{','.join(map(str, worst.shape))}]"
        index = f"[{', '.join(map(str, worst.index))}]" if worst.index else "the value"
        place = (render_code(shape, in_table=True), index, _render_value(worst.intended), _render_value(worst.actual))
    return (
        render_code(name, in_table=True),
        *place,
        render_figure(numbers.error),
        render_figure(numbers.tolerance),
    )


def _render_value(value: float) -> str:
    if isfinite(value):
        return f"{value:.7g}"
    return "NaN" if isnan(value) else ("inf" if value > 0 else "-inf")


def _render_device(device: DeviceRun | None, finding: Finding) -> list[str]:
    if device is None:
        return ["Nothing was run on a GPU for this report."]
    name = render_code(device.device)
    if device.error:
        return [f"On a GPU it could not be run: {render_code(device.error)}"]
    names = [one for one in device.outputs if not finding.outputs or one in finding.outputs] or list(device.outputs)
    rows = [
        (
            render_code(one, in_table=True),
            render_figure(compute_worst(device.outputs[one].errors)),
            render_figure(device.outputs[one].tolerance),
        )
        for one in names[:_MOST_OUTPUTS]
    ]
    said = (
        f"Run on {device.count} {name}, compiled there; the largest error of {device.runs} runs for each set of inputs:"
    )
    return [said, render_table(("output", "relative error", "tolerance"), rows)]


def _list_versions(case: CaseReport, facts: IssueFacts) -> list[str]:
    python = facts.versions.get("python", "")
    packages = [f"{name} {version}" for name, version in facts.versions.items() if name != "python"]
    system = ", ".join(one for one in (facts.system, f"Python {python}" if python else "") if one)
    several = f", {facts.device_count} devices" if facts.device_count > 1 else ""
    if not facts.is_ours:
        return [f"the module is a dump of another compile, for {case.target}; its versions and flags are not in it"]
    lines = [
        ", ".join(packages),
        f"compiled for {case.target}{several} from a description of the GPU",
        *_list_devices(case.device, facts),
        *([system] if system else []),
        f"XLA_FLAGS: {facts.xla_flags or 'not set'}",
    ]
    if facts.options:
        lines.append("compiler options: " + " ".join(f"{name}={value}" for name, value in facts.options.items()))
    return [strip_folders(line) for line in lines if line]


def _list_devices(device: DeviceRun | None, facts: IssueFacts) -> list[str]:
    if device is None or not device.device:
        return []
    return [f"ran on {device.count} {device.device}, driver {facts.driver or 'of an unknown version'}"]


def _render_schedule(case: CaseReport, finding: Finding | None, facts: IssueFacts) -> list[str]:
    if finding is None or case.view is None:
        return []
    excerpt = render_excerpt(case.view, finding)
    if not excerpt:
        return []
    attached = [name for name in facts.attached if not name.endswith(".py")]
    whole = (
        f"The whole module is in {join_words([render_code(name) for name in attached])}, attached."
        if attached
        else "`XLA_FLAGS=--xla_dump_to=DIR` writes the whole module."
    )
    said = (
        "From XLA's optimized module, in the order of its schedule; the comments say where XLA's buffer assignment puts"
        " each result, and which instruction writes or reads an overwritten value."
    )
    return ["## HLO", f"{said} {whole}", render_block(list(excerpt))]


def _render_changes(bisections: Sequence[Bisection], finding: Finding | None, names: Sequence[str]) -> list[str]:
    lines = [line for one in bisections for line in _list_changes(one, finding, names)]
    missing = [what for axis, what in _TRIED.items() if axis not in {one.axis for one in bisections}]
    return [
        *(["\n".join(f"- {line}" for line in lines)] if lines else []),
        *([f"Not tried: {join_words(missing)}."] if missing else []),
    ]


_WORDS = {
    Verdict.FRESH: "right",
    Verdict.LATENT: "right, though nothing forces the order,",
    Verdict.UNKNOWN: "undecided",
    Verdict.CLOBBERED: "wrong",
    Verdict.STALE: "wrong",
}
_FAILED = "not compiled"


def _list_changes(bisection: Bisection, finding: Finding | None, names: Sequence[str]) -> list[str]:
    """Returns a line for each result of the trials along one axis, with the labels of the trials that had it. names: those
    of all outputs.
    """
    what = _TRIED.get(bisection.axis, bisection.axis.value)
    ended = ", as far as they were tried" if bisection.interrupted else ""
    if bisection.axis is Axis.PASSES:
        found = [
            f"{what}{ended}: {render_prose(name_outputs(_say_plainly(answer), names))}." for answer in bisection.answers
        ]
        return found or [f"{what}{ended}: no pass was found to make the difference."]
    base, *others = [(row, _judge(row, finding)) for row in bisection.rows] or [(None, "")]
    if base[0] is None:
        return []
    by_word: dict[str, list[str]] = {}
    for row, word in others if bisection.axis is Axis.FLAGS else [base, *others]:
        if row is not None:
            by_word.setdefault(word, []).append(_name_row(row))
    said = [f"{word} with {_name_some(labels, word == base[1])}" for word, labels in by_word.items()]
    start = [f"{base[1]} without any flag"] if bisection.axis is Axis.FLAGS else []
    return [f"{what}{ended}: {'; '.join((*start, *said))}."]


_PLAIN_WORDS = {
    r"\blatent, right by luck": "right in this order, which nothing forces",
    r"\blatent\b": "right in an order that nothing forces",
    r"\b(?:stale|clobbered)\b": "wrong",
    r"\bfresh\b": "right",
}


def _say_plainly(answer: str) -> str:
    """Returns an answer of a bisection without our words for verdicts; names in backticks stay."""
    parts = answer.split("`")
    for pattern, word in _PLAIN_WORDS.items():
        parts[::2] = [re.sub(pattern, word, part) for part in parts[::2]]
    return "`".join(parts)


def _judge(row: BisectionRow, finding: Finding | None) -> str:
    """Returns the result of a trial for the outputs that the finding reaches; for all outputs if it names none."""
    if row.error or not row.outputs:
        return _FAILED
    names = [name for name in row.outputs if finding is None or not finding.outputs or name in finding.outputs]
    return _WORDS[max((row.outputs[name] for name in names or row.outputs), key=VERDICT_ORDER.index)]


def _name_row(row: BisectionRow) -> str:
    jax = row.cells.get("jax", "")
    return f"{row.label} (jax {jax})" if jax and jax not in row.label else row.label


_MOST_LABELS = 6


def _name_some(labels: Sequence[str], is_usual: bool) -> str:
    """Returns the labels of trials as text. If many trials have the usual result, returns their number instead."""
    if is_usual and len(labels) > _MOST_LABELS:
        return f"each of {len(labels)} others"
    return join_words([render_code(label) for label in labels])


def _render_commands(facts: IssueFacts, case: CaseReport) -> list[str]:
    if not facts.commands:
        return []
    standalone = facts.program is not None and facts.program.is_standalone
    where = (
        f"On a GPU such as {render_code(case.target)}; XLA may choose another order for another GPU:"
        if standalone
        else "Without a GPU, as ligerdiag compiles for one that is described to XLA:"
    )
    return ["## To reproduce", where, render_block(list(facts.commands), "sh")]


def _render_origin(finding: Finding | None) -> str:
    found = f"Found by ligerdiag {compute_version()}"
    if finding is None:
        return f"{found}."
    rule = get_rule(finding.rule)
    address = compute_rule_address(rule)
    name = f"{rule.id} {rule.name}"
    return f"{found}: {f'[{name}]({address})' if address else name}."
