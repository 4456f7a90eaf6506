"""Finds the XLA flags that change the verdict: compiles the case with one flag at a time set to another value.

The flags and values are those of `flags.toml`; each is added to the toolchain's own options. A row of the answer says how
much its flag changed. *Same program*: the instructions, schedule, launches and buffers are the same. *Other launches*: the
same instructions run with another sequence of thunks, for instance grouped into other command buffers. *Other buffers*: only
the buffer assignment differs. A flag that this XLA does not know or refuses is a row with its reason, and leaves the other
rows valid. Only the default and the rows that change a verdict are replayed.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ligerdiag.bisect.trials import (
    Draft,
    Outcome,
    Trial,
    TrialRunner,
    compare_outputs,
    describe_wrong,
    make_row,
    replay_outcomes,
    try_in_batches,
)
from ligerdiag.codec import FieldError, as_list, as_object, read_str
from ligerdiag.hlo.module_text import compute_fingerprint
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.hlo.xla_pb2 import HloProto
from ligerdiag.model.findings import Replay
from ligerdiag.model.jobs import CaseSpec, Flag, Variation
from ligerdiag.report.comparisons import Axis, Bisection, BisectionRow
from ligerdiag.run_options import BisectOptions
from ligerdiag.text import count_of, join_words
from ligerdiag.toolchains.gpu_targets import Target

TABLE = Path(__file__).parent / "flags.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagValue:
    name: str
    value: Flag
    family: str
    """The part of the compile that the flag changes, in one or two words."""
    about: str

    @property
    def text(self) -> str:
        """Returns a text such as `xla_gpu_async_dot=true`."""
        value = str(self.value).lower() if isinstance(self.value, bool) else str(self.value)
        return f"{self.name}={value or "''"}"

    @property
    def quoted(self) -> str:
        """Returns `text` in backticks."""
        return f"`{self.text}`"


def load_flags() -> tuple[FlagValue, ...]:
    """Returns each value of each flag in `flags.toml`, in the order of the file."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    flags = [as_object(entry, "flag") for entry in as_list(table.get("flag"), "flag")]
    return tuple(
        FlagValue(
            name=read_str(flag, "name"),
            value=_parse_value(value, read_str(flag, "name")),
            family=read_str(flag, "family"),
            about=read_str(flag, "about"),
        )
        for flag in flags
        for value in as_list(flag.get("values"), "values")
    )


def _parse_value(value: object, name: str) -> Flag:
    if not isinstance(value, str | int | float | bool):
        raise FieldError(f"expected a plain value for flag `{name}` but got {value!r:.60}")
    return value


FAMILY, PROGRAM, CHANGE = "family", "program", "change"
COLUMNS = (FAMILY, PROGRAM, CHANGE)
DEFAULT_LABEL = "default"
SAME, BUFFERS, LAUNCHES, CHANGED = "same program", "other buffers", "other launches", "changed"
UNKNOWN_FLAG, REFUSED = "not known to this XLA", "refused"
_NO_SUCH_FLAG = "No such compile option"
"""XLA's message about a flag that it does not have."""


def bisect_flags(runner: TrialRunner, case: CaseSpec, target: Target, options: BisectOptions) -> Bisection:
    """Compiles a case with each value of each flag in `flags.toml`. Returns the verdicts, and the flags that change one."""
    draft = runner.open_draft(case, target.name, Axis.FLAGS, toolchain=options.toolchain, columns=COLUMNS)
    flags = load_flags()
    if len(flags) >= options.limit:
        most = options.limit - 1
        draft.notes.append(f"of {len(flags)} settings the first {most} were tried: the limit is {options.limit} trials")
        flags = flags[:most]
    base = runner.try_one(Trial(case=case, target=target, toolchain=options.toolchain))
    draft.rows.append(make_row(base, DEFAULT_LABEL))
    if base.artifact is None or base.error:
        draft.is_unsettled = True
        draft.answers.append(f"the case could not be analysed without any flag: {base.error}")
        return runner.finish(draft)
    trials = [replace(base.trial, variation=Variation(flags={flag.name: flag.value})) for flag in flags]
    tries: tuple[_Try, ...] = ()
    for outcomes in try_in_batches(runner, trials):
        done = len(tries)
        tries += tuple(
            _Try(flag=flag, outcome=outcome, program=_compare_programs(base, outcome))
            for flag, outcome in zip(flags[done:], outcomes[done:], strict=False)
        )
        _write_rows(draft, base, tries, {})
        runner.best = f"{count_of(sum(_changes(base, one) for one in tries), 'flag')} with another verdict"
    answering = [base, *(one.outcome for one in tries if _changes(base, one))]
    replays = replay_outcomes(runner, draft, answering, options)
    numbers = {outcome.trial.key: replay for outcome, replay in zip(answering, replays, strict=True)}
    _write_rows(draft, base, tries, numbers)
    draft.answers += _answer(base, tries)
    draft.notes += _note(tries)
    return runner.finish(draft)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Try:
    flag: FlagValue
    outcome: Outcome
    program: str
    """The flag's effect on the compiled program: SAME, BUFFERS, LAUNCHES, CHANGED, UNKNOWN_FLAG or REFUSED."""


def _compare_programs(base: Outcome, outcome: Outcome) -> str:
    if outcome.artifact is None:
        return UNKNOWN_FLAG if _NO_SUCH_FLAG in outcome.error else REFUSED
    if base.artifact is None:
        return CHANGED
    one, other = base.artifact, outcome.artifact
    if compute_fingerprint(load_hlo(one.optimized)[0]) != compute_fingerprint(load_hlo(other.optimized)[0]):
        return CHANGED
    if one.thunks.read_bytes() != other.thunks.read_bytes():
        return LAUNCHES
    return SAME if _list_allocations(one.optimized) == _list_allocations(other.optimized) else BUFFERS


def _list_allocations(path: Path) -> list[tuple[int, int, list[tuple[int, int]]]]:
    """Returns (size, memory colour, slices as (offset, size)) of each allocation of the module in the file, to compare
    the memory layouts of two compiles.
    """
    proto = HloProto()
    proto.ParseFromString(path.read_bytes())
    return [
        (allocation.size, allocation.color, sorted((one.offset, one.size) for one in allocation.assigned))
        for allocation in proto.buffer_assignment.buffer_allocations
    ]


def _changes(base: Outcome, one: _Try) -> bool:
    return not one.outcome.error and dict(one.outcome.outputs) != dict(base.outputs)


def _write_rows(
    draft: Draft, base: Outcome, tries: Sequence[_Try], replays: Mapping[tuple[object, ...], Replay | None]
) -> None:
    draft.rows[:] = [
        make_row(base, DEFAULT_LABEL, replay=replays.get(base.trial.key)),
        *(_make_row(base, one, replays.get(one.outcome.trial.key)) for one in tries),
    ]


def _make_row(base: Outcome, one: _Try, replay: Replay | None) -> BisectionRow:
    change = ", ".join(compare_outputs(base.outputs, one.outcome.outputs))
    row = make_row(
        one.outcome,
        one.flag.text,
        replay=replay,
        cells={FAMILY: one.flag.family, PROGRAM: one.program, CHANGE: change},
        evidence=(("what it does", one.flag.about),) if _changes(base, one) else (),
        is_answer=_changes(base, one),
    )
    return replace(row, error=UNKNOWN_FLAG) if one.program == UNKNOWN_FLAG else row


def _answer(base: Outcome, tries: Sequence[_Try]) -> list[str]:
    """Returns one sentence for the flags that make every output right, and one for each change of verdicts."""
    answers: list[str] = []
    right = join_words([one.flag.quoted for one in tries if one.outcome.is_right], "or")
    if not base.is_right:
        answers.append(f"every output is right with {right}" if right else "no flag makes every output right")
        lucky = [one.flag.quoted for one in tries if one.outcome.word == "latent" and base.word != "latent"]
        if lucky:
            answers.append(f"right by luck, although nothing forces the order, with {join_words(lucky, 'or')}")
    changes: dict[tuple[str, ...], list[str]] = {}
    for one in tries:
        if _changes(base, one):
            changes.setdefault(compare_outputs(base.outputs, one.outcome.outputs), []).append(one.flag.quoted)
    answers += [f"{', '.join(change)} with {join_words(names, 'or')}" for change, names in changes.items()]
    if not changes:
        tried = sum(not one.outcome.error for one in tries)
        verdict = describe_wrong(base.outputs) or "every output is fresh"
        answers.append(f"none of {count_of(tried, 'setting')} changes a verdict: {verdict}")
    return answers


def _note(tries: Sequence[_Try]) -> list[str]:
    """Returns notes: the number of settings with each effect, and the settings that could not be tried."""
    counts = {word: sum(one.program == word for one in tries) for word in (SAME, BUFFERS, LAUNCHES, CHANGED)}
    notes = [", ".join(f"{word}: {number}" for word, number in counts.items() if number)]
    for word in (UNKNOWN_FLAG, REFUSED):
        names = [one.flag.quoted for one in tries if one.program == word]
        if names:
            notes.append(f"{word}: {join_words(names)}")
    unjudged = [one.flag.quoted for one in tries if one.outcome.error and one.outcome.artifact is not None]
    if unjudged:
        notes.append(f"compiled, but could not be analysed: {join_words(unjudged)}")
    return [note for note in notes if note]
