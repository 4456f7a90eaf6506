"""Reduces one case: traces its function, finds the symptom, searches for the smallest program, and prints the result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import NoReturn

from ligerdiag.bisect.trials import Outcome, Trial, TrialRunner
from ligerdiag.errors import InputError, LigerdiagError
from ligerdiag.model.findings import Attribution, OutputNumbers, Replay
from ligerdiag.model.jobs import CaseSpec
from ligerdiag.reduce.delta_debugging import Reduction
from ligerdiag.reduce.edits import replace_by_argument
from ligerdiag.reduce.final_text import ReductionOrigin, print_file
from ligerdiag.reduce.judge import Judge, is_computed
from ligerdiag.reduce.program_text import print_function
from ligerdiag.reduce.reduced_program import Kind, Program, Size, compute_size, iterate_equations
from ligerdiag.reduce.symptom import Symptom, choose_symptom, list_differences
from ligerdiag.reduce.trace_jobs import TRACE_WORKER, make_hlo_text_job, make_trace_job
from ligerdiag.replay.replay_service import ReplayOptions
from ligerdiag.toolchains.gpu_targets import Target
from ligerdiag.workers.pool import Pool

type OnStep = Callable[[Program, str, int], None]
"""Called with the smallest program so far, the name of the step, and the number of candidates so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced:
    """A reduced program, with its symptom and its size before and after the reduction."""

    case_id: str
    symptom: Symptom
    before: Size
    after: Size
    steps: tuple[tuple[str, Size], ...]
    candidates: int
    lines: int
    """Number of lines of the function that JAX traces, including its `def` and `return`."""
    text: str
    """The text of the file with the reduced program."""
    hlo: str
    """The optimized module of the reduced program as HLO text; empty if it does not compile."""
    errors: tuple[float, ...]
    """The relative error of each output of the reduced schedule in a replay on the CPU; empty if there was no replay."""
    seconds: float
    case_file: str = ""
    """Path of the case file with the reduced program. The program was judged as this file."""
    effects: Mapping[str, object] = field(default_factory=dict[str, object])
    """The `effects` that the unreduced case declares, with which the reduced program was judged."""


@dataclass(slots=True, kw_only=True)
class CaseReducer:
    """Reduces one case for one target."""

    runner: TrialRunner
    case: CaseSpec
    target: Target
    toolchains: tuple[str, ...]
    """The toolchain to compile with; two of them to keep a difference between their verdicts."""
    replay: ReplayOptions
    steps: Path
    rule: str = ""
    numbers: bool = False
    report: OnStep
    _judge: Judge | None = None
    _reduction: Reduction | None = None
    _before: Size | None = None
    _started: float = 0.0

    def run(self) -> None:
        """Searches for the smallest program. After an interrupt, `finish` returns the smallest one that was found.

        Raises InputError if the case has no symptom, such as a finding, or if the program printed from its trace does not
        show it.
        """
        self._started = perf_counter()
        trials = [Trial(case=self.case, target=self.target, toolchain=name) for name in self.toolchains]
        outcomes = self.runner.try_all(trials)
        symptom = choose_symptom(outcomes, self._replay(outcomes), rule=self.rule, needs_numbers=self.numbers)
        self._judge = Judge(
            runner=self.runner,
            case=self.case,
            target=self.target,
            toolchains=self.toolchains,
            replay=self.replay,
            folder=self.runner.cache.root / "reduce",
            steps=self.steps,
            symptom=symptom,
        )
        for number, name in enumerate(reversed(self.toolchains), 1):
            toolchain = self.runner.find_toolchain(name)
            with Pool(cache=self.runner.cache, toolchain=toolchain, jobs=1, module=TRACE_WORKER) as pool:
                original = pool.submit(make_trace_job(self.case, self.target)).result().program
                if not self._is_shown(original, list_differences(outcomes)):
                    if number == len(self.toolchains):
                        self._refuse(original)
                    continue
                self._before = compute_size(original)
                self._judge.read_steps()
                self._search(replace_by_argument(original), pool)
                return

    def _search(self, program: Program, pool: Pool) -> None:
        assert self._judge is not None
        self._reduction = Reduction(
            best=program,
            find_first=self._judge.find_first,
            retrace=lambda sizes: [self._trace(pool, one) for one in sizes],
            report=self._report,
        )
        self._report(program, "start")
        self._reduction.run()

    def _is_shown(self, original: Program, differences: Sequence[tuple[str, str]]) -> bool:
        """Returns whether the program, printed from its trace, shows the symptom. Of several differences between two
        toolchains, the first one that it shows becomes the symptom.
        """
        assert self._judge is not None
        symptom = self._judge.symptom
        calls = [one for one in iterate_equations(original.body) if symptom.kernel and one.kernel == symptom.kernel]
        computed = bool(calls) and all(is_computed(original, one, symptom.operand) for one in calls)
        program = replace_by_argument(original)
        for verdicts in differences or [symptom.verdicts]:
            self._judge.symptom = replace(symptom, is_computed=computed, verdicts=verdicts)
            if self._judge.shows(program):
                return True
        self._judge.symptom = symptom
        return False

    def _refuse(self, original: Program) -> NoReturn:
        assert self._judge is not None
        raise InputError(
            f"the program printed from the trace of `{self.case.id}` does not show the symptom"
            f" ({self._judge.symptom.describe()}), so it cannot be reduced{_name_missing(original)}"
        )

    def _replay(self, outcomes: Sequence[Outcome]) -> Replay | None:
        if outcomes[0].error or len(outcomes) > 1 or self.rule:
            return None
        return self.runner.replay(outcomes[:1], self.replay)[0]

    def _trace(self, pool: Pool, sizes: tuple[tuple[int, int], ...]) -> Program | None:
        try:
            return replace_by_argument(pool.submit(make_trace_job(self.case, self.target, sizes)).result().program)
        except LigerdiagError:
            return None

    def _report(self, program: Program, step: str) -> None:
        self.report(program, step, 0 if self._judge is None else self._judge.asked)

    def finish(self, *, is_brief: bool = False) -> Reduced | None:
        """Returns the smallest program that was found so far, or None if none was found.

        is_brief: whether to leave out the slow parts of the result, which are the numbers of a replay and the HLO.
        """
        if self._reduction is None or self._judge is None or self._before is None:
            return None
        best, judge = self._reduction.best, self._judge
        first = None if is_brief else judge.compile([best])[0][-1]
        toolchain = self.runner.find_toolchain(self.toolchains[-1])
        versions = ", ".join(
            f"{name} {version}"
            for name, version in toolchain.versions.items()
            if name in ("jax", "jaxlib", "triton", "jax-triton")
        )
        numbers = () if first is None else self._replay_result(first)
        origin = ReductionOrigin(
            case=self.case.id,
            target=self.target.name,
            toolchain=toolchain.name,
            versions=versions,
            symptom=judge.symptom,
            errors=tuple(one.error for one in numbers),
            wrong=tuple(one.attribution not in (Attribution.FRESH, Attribution.UNDECIDED) for one in numbers),
        )
        return Reduced(
            case_id=self.case.id,
            symptom=judge.symptom,
            before=self._before,
            after=compute_size(best),
            steps=tuple(self._reduction.steps),
            candidates=judge.asked,
            lines=len(print_function(best)),
            text=print_file(replace(best, name="program"), origin),
            hlo="" if first is None else self._print_module(first),
            errors=origin.errors,
            seconds=perf_counter() - self._started,
            case_file=judge.make_case(best).source.file,
            effects=self.case.effects,
        )

    def _replay_result(self, outcome: Outcome) -> tuple[OutputNumbers, ...]:
        """Returns the numbers of each output of the reduced schedule; empty if it cannot be replayed."""
        if outcome.artifact is None or outcome.error:
            return ()
        (replay,) = self.runner.replay([outcome], self.replay)
        return tuple(replay.outputs.values())

    def _print_module(self, outcome: Outcome) -> str:
        if outcome.artifact is None:
            return ""
        toolchain = self.runner.find_toolchain(self.toolchains[-1])
        job = make_hlo_text_job(str(outcome.artifact.optimized), outcome.trial.case.source)
        with Pool(cache=self.runner.cache, toolchain=toolchain, jobs=1, module=TRACE_WORKER) as pool:
            try:
                return pool.submit(job).result().text
            except LigerdiagError:
                return ""


def _name_missing(program: Program) -> str:
    missing = [one for one in iterate_equations(program.body) if one.kind is Kind.UNPRINTABLE]
    reasons = sorted({f"`{one.kernel or one.primitive}` {one.reason}" for one in missing})
    return f": it cannot be printed as Python, since {', and '.join(reasons)}" if reasons else ""
