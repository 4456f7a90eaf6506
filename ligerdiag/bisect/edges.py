"""Finds the readers that must be tied to a kernel so that every output is right: all minimal sets of ties.

A kernel overwrites a value without XLA's knowledge (a hidden write), so XLA may schedule a reader of the value before the
kernel. A tie replaces the value that one reader gets by `value + s - s`, with `s` the sum of the kernel's result. The reader
then depends on the kernel and runs after it. The knobs of the search (the changes that a trial can make) are the readers, in
the program without ties, of the overwritten values.

A set of ties is right if every output is fresh; latent (right by luck) is not enough. The numbers of a replay do not
decide this: if they contradict a verdict, a note says so. A tie must not change what the program means: an output that
should see a hidden write in the program without ties must still see it with them. It may see additional writes, because
the sum in a tie depends on the kernel. For each set, and for each tie in it, the answer shows that the set without this
tie is not right.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ligerdiag.artifacts.call_records import TieSite
from ligerdiag.bisect.search import Completeness, Knobs, MinimalSets, MinimalSetSearch, iterate_confirmations
from ligerdiag.bisect.trials import (
    Draft,
    Outcome,
    Trial,
    TrialRunner,
    describe_wrong,
    explain_wrong,
    make_row,
    replay_outcomes,
)
from ligerdiag.errors import CaseError
from ligerdiag.model.jobs import CaseSpec, Variation
from ligerdiag.model.report import WrittenOperand
from ligerdiag.report.comparisons import Axis, Bisection, BisectionRow
from ligerdiag.rules.registry import list_ids
from ligerdiag.rules.rule import RuleKind
from ligerdiag.run_options import BisectOptions
from ligerdiag.source_text import compute_place
from ligerdiag.text import count_of, join_words
from ligerdiag.toolchains.gpu_targets import Target


def describe_reader(reader: TieSite) -> str:
    """Returns a text such as "`dot_general` at train.py:41 reads f32[4,32]". If the place of the reader is unknown, the
    text has the reader's id.
    """
    return f"`{_name(reader)}` {_locate(reader)} reads {reader.shape}"


def describe_ties(ties: Knobs, knobs: Sequence[TieSite]) -> str:
    """Returns a text such as "ties 1 (`reduce` at train.py:43) and 3 (`dot_general` at train.py:41)", which counts from 1.

    knobs: all readers that can be tied. ties: 0-based indices of the tied ones.
    """
    names = [f"{number + 1} (`{_name(knobs[number])}` {_locate(knobs[number])})" for number in sorted(ties)]
    return f"{'tie' if len(names) == 1 else 'ties'} {join_words(names)}"


def describe_written(written: Sequence[WrittenOperand]) -> str:
    """Returns a text that names the overwritten values by their kernels, such as "what `ce_kernel` overwrites"."""
    kernels = list(dict.fromkeys(f"`{one.kernel}`" for one in written))
    return f"what {join_words(kernels)} {'overwrites' if len(kernels) == 1 else 'overwrite'}"


def _name(reader: TieSite) -> str:
    return reader.opcode.removeprefix("stablehlo.")


def _locate(reader: TieSite) -> str:
    return f"at {compute_place(reader.source)}" if reader.source.file else f"({reader.id})"


ANOTHER_COPY = (
    "a tie only puts a reader after the kernel: if the reader reads another copy of the value than the kernel"
    " overwrites, it still gets the old value"
)


def bisect_edges(runner: TrialRunner, case: CaseSpec, target: Target, options: BisectOptions) -> Bisection:
    """Returns all minimal sets of ties that make every output fresh, or the reason why there is none. A tie forces one
    reader of a value to run after the kernel that overwrites the value.

    Raises CaseError if JAX cannot trace the case.
    """
    draft = runner.open_draft(case, target.name, Axis.EDGES, toolchain=options.toolchain)
    base = runner.try_one(Trial(case=case, target=target, toolchain=options.toolchain))
    draft.rows.append(make_row(base, "no tie"))
    if base.exit_code == CaseError.exit_code:
        raise CaseError(base.error)
    if base.artifact is None or base.error:
        draft.is_unsettled = True
        draft.answers.append(f"the case could not be analysed: {base.error}")
        return runner.finish(draft)
    knobs = find_knobs(draft, base, base.artifact.readers, base.artifact.readers_trouble)
    if base.is_right or not knobs:
        _settle_without_search(draft, base, knobs)
        numbers = replay_outcomes(runner, draft, [base], options)[0]
        draft.rows[:] = [make_row(base, "no tie", replay=numbers, is_answer=base.is_right)]
        return runner.finish(draft)
    experiment = _Experiment(runner=runner, draft=draft, base=base.trial, knobs=knobs, meant=base.meant)
    search = MinimalSetSearch(
        count=len(knobs),
        judge=experiment.judge,
        limit=options.limit,
        width=runner.jobs,
        on_best=experiment.tell_best,
    )
    try:
        found = search.run()
    except KeyboardInterrupt:
        _write_interrupted(draft, experiment, search)
        raise
    _write_answers(draft, experiment, search, found, options)
    _write_rows(draft, experiment, found.sets, options)
    return runner.finish(draft)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Experiment:
    """Compiles and judges the program with sets of ties. A tie forces a reader to run after the kernel; its number is
    the index of the reader in `knobs`.
    """

    runner: TrialRunner
    draft: Draft
    base: Trial
    knobs: tuple[TieSite, ...]
    meant: Mapping[str, int]
    """From output name to the hidden writes that the output should see in the program without ties, as a bit set; see
    `Inspection.meant`.
    """

    def try_all(self, sets: Sequence[Knobs]) -> tuple[Outcome, ...]:
        """Compiles the case with each set of ties, and returns the outcomes."""
        return self.runner.try_all([self._make_trial(knobs) for knobs in sets])

    def judge(self, sets: Sequence[Knobs]) -> list[bool | None]:
        """Returns whether each set of ties makes every output fresh. The ties must not change which hidden writes the
        outputs should see. The result is None for a set if that is unknown.
        """
        return [
            None if outcome.word == "unknown" else outcome.is_right and outcome.wants(self.meant)
            for outcome in self.try_all(sets)
        ]

    def tell_best(self, knobs: Knobs) -> None:
        """Shows the size of the smallest right set of ties so far in the progress line. knobs: this set."""
        self.runner.best = f"right with {count_of(len(knobs), 'tie')}"

    def _make_trial(self, knobs: Knobs) -> Trial:
        ties = tuple(self.knobs[number].id for number in sorted(knobs))
        return Trial(
            case=self.base.case,
            target=self.base.target,
            toolchain=self.base.toolchain,
            variation=Variation(flags=self.base.variation.flags, ties=ties),
        )


def find_knobs(draft: Draft, base: Outcome, readers: Sequence[TieSite], trouble: str) -> tuple[TieSite, ...]:
    """Returns the readers of overwritten operands that a tie can force to run after the kernel. Adds a note to the draft
    (the bisection in progress) on each reader that cannot be tied.

    A tie gives the reader a copy of the value. So a kernel that overwrites the value itself cannot be tied: it would
    overwrite the copy. base: the outcome without ties. readers: all reads of kernels' operands. trouble: why `readers`
    may be incomplete; the draft is then unsettled (exit code 3). It is '' if `readers` is complete.
    """
    if trouble:
        draft.is_unsettled = True
        draft.notes.append(f"not all readers are known: {trouble}")
    written = {(one.call, one.operand) for one in base.written}
    of_interest = [reader for reader in readers if (reader.call, reader.operand) in written]
    reasons = {
        reader.id: reader.untieable
        or (
            "it is a kernel that overwrites the value, too" if (reader.reader, reader.reader_operand) in written else ""
        )
        for reader in of_interest
    }
    draft.notes += [
        f"{describe_reader(reader)} is not tied to the kernel: {reasons[reader.id]}"
        for reader in of_interest
        if reasons[reader.id]
    ]
    return tuple(reader for reader in of_interest if not reasons[reader.id])


def _settle_without_search(draft: Draft, base: Outcome, knobs: Sequence[TieSite]) -> None:
    if not base.written:
        draft.answers.append("no kernel overwrites an operand behind XLA's back: there is nothing to tie")
        draft.is_unsettled |= base.word == "unknown"
    elif base.is_right:
        there = f", with {count_of(len(knobs), 'reader')} that could be tied" if knobs else ""
        draft.answers.append(f"right without any tie: every output is fresh{there}")
    else:
        nothing = f"no reader of {describe_written(base.written)} can be tied to the kernel"
        draft.answers.append(f"no set of ties: {nothing}, and {describe_wrong(base.outputs)}")
        draft.answers += explain_wrong(base)
        draft.is_unsettled |= base.word == "unknown"


def _write_answers(
    draft: Draft, experiment: _Experiment, search: MinimalSetSearch, found: MinimalSets, options: BisectOptions
) -> None:
    """Writes into the draft (the bisection in progress) a sentence for each set of ties, or why there is none, and how
    certain the answer is.
    """
    knobs = experiment.knobs
    if found.sets:
        sure = "exactly " if found.completeness is Completeness.CERTAIN else ""
        verb = "makes" if len(found.sets) == 1 else "make"
        sets = count_of(len(found.sets), "minimal set")
        draft.answers.append(f"{sure}{sets} of ties, out of {len(knobs)} possible, {verb} every output right")
        draft.answers += [describe_ties(ties, knobs) for ties in found.sets]
    elif found.completeness is Completeness.LIMITED:
        draft.answers.append(
            f"no minimal set of ties, out of {len(knobs)} possible, was confirmed within {options.limit} trials"
        )
    else:
        every = experiment.try_all([frozenset(range(len(knobs)))])[0]
        which = f"all {len(knobs)} ties" if len(knobs) > 1 else "the only possible tie"
        left = f": even with {which}, {describe_wrong(every.outputs) or every.error}"
        if every.is_right:
            left = f": with {which}, some output no longer depends on a write that it depends on without ties"
        draft.answers.append(f"no set of ties makes every output right{left}")
        draft.answers += explain_wrong(every)
        copies = list_ids(RuleKind.COPY_READ)
        draft.answers += [ANOTHER_COPY] if any(finding.rule in copies for finding in every.findings) else []
    lucky = _list_lucky(experiment, list(search.tried))
    if lucky:
        draft.notes.append(f"right by luck, in this schedule alone, with fewer ties: {'; '.join(lucky)}")
    match found.completeness:
        case Completeness.CERTAIN:
            pass
        case Completeness.IF_MONOTONE:
            draft.notes.append(
                f"{len(search.tried)} of 2^{len(knobs)} sets were tried: there is no other minimal set unless a tie does"
                " harm"
            )
        case Completeness.LIMITED:
            draft.notes.append(f"there may be other sets: `--limit` allows more than {options.limit} trials")
    if not found.is_monotone:
        draft.notes.append("a tie can do harm here: a set of ties that is right becomes wrong with more ties")
    if found.undecided:
        draft.is_unsettled = True
        outcome = experiment.try_all([found.undecided[0]])[0]
        reason = outcome.error or describe_wrong(outcome.outputs)
        draft.notes.append(
            f"{count_of(len(found.undecided), 'set')} remain undecided and may be right; the reason for one of them:"
            f" {reason}"
        )


def _list_lucky(experiment: _Experiment, tried: Sequence[Knobs]) -> list[str]:
    """Returns texts for the smallest sets of ties with which no output is wrong but some are latent, that is, right by
    luck.
    """
    words = {ties: outcome.word for ties, outcome in zip(tried, experiment.try_all(tried), strict=True)}
    good = [ties for ties, word in words.items() if word in ("right", "latent")]
    smallest = [ties for ties in good if not any(other < ties for other in good)]
    return [describe_numbers(ties) for ties in smallest if words[ties] == "latent"]


def _write_rows(draft: Draft, experiment: _Experiment, sets: Sequence[Knobs], options: BisectOptions) -> None:
    """Writes into the draft (the bisection in progress) rows for no tie, for all ties, and for each set with the trials
    that confirm that it is minimal.
    """
    every = frozenset(range(len(experiment.knobs)))
    shown: list[tuple[str, Knobs, Knobs]] = [("no tie", frozenset(), frozenset())]
    if every not in sets:
        shown.append((f"all {count_of(len(every), 'tie')}", every, frozenset()))
    for ties in sets:
        shown.append((describe_numbers(ties), ties, ties))
        shown += [(f"  without {knob + 1}", less, frozenset()) for knob, less in iterate_confirmations(ties) if less]
    outcomes = experiment.try_all([ties for _, ties, _ in shown])
    replays = replay_outcomes(experiment.runner, draft, outcomes, options)
    rows: list[BisectionRow] = []
    for (label, _, answer), outcome, replay in zip(shown, outcomes, replays, strict=True):
        evidence = _describe_members(experiment, answer)
        rows.append(make_row(outcome, label, replay=replay, evidence=evidence, is_answer=bool(answer)))
    draft.rows[:] = rows


def _describe_members(experiment: _Experiment, ties: Knobs) -> tuple[tuple[str, str], ...]:
    """Returns a pair for each tie of the set: ("tie 1", a sentence on its reader and on the outputs that are not right
    without this tie).
    """
    members = list(iterate_confirmations(ties))
    outcomes = experiment.try_all([less for _, less in members])
    return tuple(
        (
            f"tie {knob + 1}",
            f"{describe_reader(experiment.knobs[knob])}; without it {describe_wrong(outcome.outputs) or outcome.error}",
        )
        for (knob, _), outcome in zip(members, outcomes, strict=True)
    )


def describe_numbers(ties: Knobs) -> str:
    """Returns a text such as `no tie`, `tie 1` or `ties 1, 3`."""
    if not ties:
        return "no tie"
    return f"{'tie' if len(ties) == 1 else 'ties'} {', '.join(str(knob + 1) for knob in sorted(ties))}"


def _write_interrupted(draft: Draft, experiment: _Experiment, search: MinimalSetSearch) -> None:
    """Writes the result so far into the draft (the bisection in progress) after Ctrl-C: the sets confirmed as minimal
    or, if there are none, the smallest right set. Compiles nothing.
    """
    sets = search.list_confirmed() or ((search.best,) if search.best else ())
    for ties in sets:
        draft.answers.append(describe_ties(ties, experiment.knobs))
        draft.rows.append(make_row(experiment.try_all([ties])[0], describe_numbers(ties), is_answer=True))
    draft.notes.append("the compiles so far are in the cache: run the same command again to continue")
