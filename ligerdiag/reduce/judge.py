"""Judges candidates as `check` judges cases: compiles each candidate (a smaller program), and decides whether it shows the
symptom, such as a finding.

Every answer is appended to a file. The search is deterministic, so a second call with that file continues where the first
one ended.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from ligerdiag.bisect.trials import Outcome, Trial, TrialRunner
from ligerdiag.codec import FieldError, parse_object, read_bool, read_str
from ligerdiag.compile.compile_service import compute_sources_sha256
from ligerdiag.model.findings import Replay
from ligerdiag.model.jobs import CaseSpec, Source
from ligerdiag.reduce.program_text import CASE_NAME, print_case
from ligerdiag.reduce.reduced_program import Equation, Kind, Program, iterate_equations
from ligerdiag.reduce.symptom import Symptom, SymptomKind, shows
from ligerdiag.replay.replay_service import ReplayOptions
from ligerdiag.toolchains.gpu_targets import Target


def read_answers(path: Path, described: str) -> dict[str, bool]:
    """Returns the answers in the file, as a dict from the key of a candidate to whether it shows the symptom.

    If the file is about another search than this one, empties the file and returns {}. described: the line that
    identifies this search; it is the first line of the file.
    """
    lines = path.read_text().splitlines() if path.is_file() else []
    if not lines or lines[0] != described:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(described + "\n")
        return {}
    answers: dict[str, bool] = {}
    for line in lines[1:]:
        try:
            answer = parse_object(line)
            answers[read_str(answer, "candidate")] = read_bool(answer, "shows")
        except FieldError:  # the last line of a run that was killed
            continue
    return answers


def append_answer(path: Path, key: str, *, shows: bool) -> None:
    """Appends the answer about one candidate, a smaller program, to the file."""
    with path.open("a") as steps:
        steps.write(json.dumps({"candidate": key, "shows": shows}) + "\n")


def is_computed(program: Program, call: Equation, operand: int | None) -> bool:
    """Returns whether an operation of the program computes this operand of a kernel call.

    Returns False if the operand is an argument or a constant.
    """
    if operand is None or operand >= len(call.operands) or call.operands[operand].is_literal:
        return False
    return call.operands[operand].text not in {one.name for one in program.body.parameters}


@dataclass(slots=True, kw_only=True)
class Judge:
    """Decides whether candidates (smaller programs) show the symptom that the reduction must keep."""

    runner: TrialRunner
    case: CaseSpec
    """The user's case."""
    target: Target
    toolchains: tuple[str, ...]
    replay: ReplayOptions
    folder: Path
    """Folder for the candidates' files."""
    steps: Path
    """File that keeps the answers, so that a second run can continue an interrupted one."""
    symptom: Symptom
    asked: int = 0
    """Number of candidates that were judged, in this run or an earlier one."""
    _answers: dict[str, bool] = field(default_factory=dict[str, bool])

    def read_steps(self) -> None:
        """Reads the answers of an earlier run of the same search.

        Runs belong to one search if their symptom and their version of ligerdiag are equal.
        """
        self._answers |= read_answers(self.steps, self._describe_search())

    def _describe_search(self) -> str:
        search = {
            "case": self.case.id,
            "symptom": repr(self.symptom),
            "target": self.target.sha256,
            "toolchains": self.toolchains,
            "ligerdiag": compute_sources_sha256(["."]),
        }
        return json.dumps(search)

    def find_first(self, programs: Sequence[Program]) -> Program | None:
        """Returns the first of the programs that shows the symptom, such as a finding, or None if none does.

        Judges as many programs at a time as there are workers.
        """
        jobs = self.runner.jobs
        for start in range(0, len(programs), jobs):
            batch = programs[start : start + jobs]
            for program, answer in zip(batch, self.judge(batch), strict=True):
                if answer:
                    return program
        return None

    def shows(self, program: Program) -> bool:
        """Returns whether the program shows the symptom, such as a finding.

        Compiles the program anew, even if an earlier run has an answer.
        """
        return self._is_possible(program) and self._ask([program])[0]

    def judge(self, programs: Sequence[Program]) -> list[bool]:
        """Returns, for each of the programs, whether it shows the symptom, such as a finding."""
        keys = [self._compute_key(program) for program in programs]
        new = {key: program for key, program in zip(keys, programs, strict=True) if key not in self._answers and key}
        impossible = [key for key, program in new.items() if not self._is_possible(program)]
        self._answers.update(dict.fromkeys(impossible, False))
        for key in impossible:
            del new[key]
        if new:
            for key, answer in zip(new, self._ask(list(new.values())), strict=True):
                self._answers[key] = answer
                append_answer(self.steps, key, shows=answer)
        self.asked = len(self._answers)
        return [bool(key) and self._answers[key] for key in keys]

    def _compute_key(self, program: Program) -> str:
        return sha256(print_case(program).encode()).hexdigest()

    def _is_possible(self, program: Program) -> bool:
        """Returns whether it is worth a compile: a program without the kernel cannot have a finding about it."""
        equations = list(iterate_equations(program.body))
        if any(one.kind is Kind.UNPRINTABLE for one in equations) or not program.body.results:
            return False
        if any(one.type.is_ref for one in program.body.results):
            return False
        kernel = self.symptom.kernel if self.symptom.kind is SymptomKind.FINDING else ""
        if not kernel:
            return True
        calls = [one for one in equations if one.kernel == kernel]
        if not self.symptom.is_computed:
            return bool(calls)
        return any(is_computed(program, one, self.symptom.operand) for one in calls)

    def _ask(self, programs: Sequence[Program]) -> list[bool]:
        compiled = self.compile(programs)
        needs_replay = self.symptom.needs_numbers or self.symptom.kind is SymptomKind.DISAGREEMENT
        answers = [not needs_replay and shows(self.symptom, outcomes, None) for outcomes in compiled]
        if needs_replay:
            replays: tuple[Replay, ...] = self.runner.replay([outcomes[0] for outcomes in compiled], self.replay)
            answers = [
                shows(self.symptom, outcomes, replay) for outcomes, replay in zip(compiled, replays, strict=True)
            ]
        return answers

    def compile(self, programs: Sequence[Program]) -> list[tuple[Outcome, ...]]:
        """Compiles each program once with each toolchain, and returns the outcomes for each program."""
        cases = [self.make_case(program) for program in programs]
        trials = [
            Trial(case=case, target=self.target, toolchain=toolchain) for case in cases for toolchain in self.toolchains
        ]
        outcomes, count = self.runner.try_all(trials), len(self.toolchains)
        return [outcomes[start : start + count] for start in range(0, len(outcomes), count)]

    def make_case(self, program: Program) -> CaseSpec:
        """Writes the program as a case file, and returns its case."""
        text = print_case(program)
        digest = sha256(text.encode()).hexdigest()
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / f"candidate_{digest[:20]}.py"
        if not file.is_file():
            file.write_text(text)
        return CaseSpec(
            id=CASE_NAME,
            name=CASE_NAME,
            params=(),
            source=Source(file=str(file), root=str(self.folder)),
            mesh=program.mesh,
            expected=None,
            about="",
            draws=digest,
            effects=self.case.effects,
        )
