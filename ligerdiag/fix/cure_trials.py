"""Judges programs that a cure has changed: runs `check` on each, and decides whether it is proved right."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from ligerdiag.api.checking import check
from ligerdiag.artifacts.artifact import Artifact, load_artifact
from ligerdiag.artifacts.cache import Cache
from ligerdiag.effects.access import CallEffects
from ligerdiag.effects.declared import parse_declared
from ligerdiag.effects.isolated import CallEffectsReader
from ligerdiag.ending import RunEnded
from ligerdiag.errors import LigerdiagError
from ligerdiag.fix.records import Cost, Proof, Texts
from ligerdiag.hlo.module import HloInstruction, HloModule, iterate_user_frames
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.inspection.compilation import open_readers
from ligerdiag.model.findings import Finding, ReplayState, Severity, Verdict
from ligerdiag.model.jobs import CaseSpec
from ligerdiag.model.report import CaseReport, CheckReport, OnProgress, Status
from ligerdiag.replay.meaning_service import compare_meanings
from ligerdiag.replay.meaning_worker import MeaningAnswer
from ligerdiag.rules.registry import get_rule
from ligerdiag.rules.rule import RuleKind
from ligerdiag.run_options import CheckOptions
from ligerdiag.text import count_of, join_words
from ligerdiag.toolchains.environments import provide_toolchain
from ligerdiag.workers.templates import Templates


@dataclass(frozen=True, slots=True, kw_only=True)
class CureTrial:
    """The result for one changed program on all targets: whether it is proved right, and why not."""

    proof: Proof
    reason: str = ""
    reports: tuple[CaseReport, ...] = ()
    is_compared: bool = False
    costs: Mapping[str, Cost]
    left: tuple[str, ...] = ()


def list_hazards(report: CaseReport) -> tuple[Finding, ...]:
    """Returns the warnings and errors of a case that no suppression allows."""
    return tuple(one for one in report.findings if one.severity is not Severity.NOTE and one.suppressed is None)


def require_complete(report: CheckReport) -> None:
    """Raises RunEnded if the run was ended early, for example by Ctrl-C, because its results are then incomplete."""
    if report.interrupted:
        raise RunEnded(report.ended_by)


def keep_patches(cache: Cache, texts: Texts) -> tuple[tuple[str, str], ...]:
    """Writes the new texts into the cache.

    Returns a (path of a file, path of its new text) pair for each, as the field `patches` of a `Source` needs them.
    """
    folder = cache.root / "patches"
    folder.mkdir(parents=True, exist_ok=True)
    patches: list[tuple[str, str]] = []
    for path, text in sorted(texts.items()):
        kept = folder / f"{sha256(text).hexdigest()}.py"
        if not kept.exists() or kept.read_bytes() != text:
            kept.write_bytes(text)
        patches.append((str(path), str(kept)))
    return tuple(patches)


class Trials:
    """Judges the changed programs of one case.

    It passes all of them to `check` at once, as sources with patched files.
    """

    def __init__(
        self, case: CaseSpec, base: Sequence[CaseReport], options: CheckOptions, report_progress: OnProgress | None
    ) -> None:
        """case: the unchanged case. base: its reports, one for each target."""
        self._case, self._base = case, tuple(base)
        self._options, self._report_progress = options, report_progress
        self._cache = Cache(options.cache_directory)

    def judge(
        self, changes: Sequence[Texts], *, defining: Sequence[Texts] = (), keeps_program: bool = False
    ) -> list[CureTrial]:
        """Returns the result for each changed program.

        defining: those of `changes` that give a value to outputs which the unchanged case leaves undefined; such outputs
        are not compared. keeps_program: whether the changes leave the function unchanged, and affect only its compile or
        its memory; then no numbers are compared.
        """
        patches = [keep_patches(self._cache, one) for one in changes]
        specs = [replace(self._case, source=replace(self._case.source, patches=one)) for one in patches]
        found = self._check_together(specs)
        needed = [
            number
            for number, reports in enumerate(found)
            if not keeps_program and not isinstance(reports, str) and not self._find_fault(reports)
        ]
        pairs = [
            (load_artifact(Path(self._base[0].artifact)), load_artifact(Path(_get_reports(found[number])[0].artifact)))
            for number in needed
        ]
        meanings = dict(zip(needed, self._compare(pairs), strict=True)) if pairs else {}
        unshown = [number for number, one in meanings.items() if one.reason or (not one.different and self._silent)]
        unshown_pairs = [pair for number, pair in zip(needed, pairs, strict=True) if number in unshown]
        opaque = dict(zip(unshown, self._compare(unshown_pairs, opaquely=True), strict=True)) if unshown else {}
        if keeps_program:
            meanings = dict.fromkeys(range(len(found)), MeaningAnswer())
        undefined = self._list_undefined()
        return [
            self._conclude(
                reports,
                meanings.get(number),
                opaque.get(number),
                undefined if any(changes[number] is one for one in defining) else (),
            )
            for number, reports in enumerate(found)
        ]

    def _check_together(self, specs: Sequence[CaseSpec]) -> list[tuple[CaseReport, ...] | str]:
        """Returns the reports of each case, one for each target, or the error because of which there are none."""
        if not specs:
            return []
        count = len(self._base)
        if len(specs) > 1:
            try:
                report = check(replace(self._options, selectors=tuple(specs)), self._report_progress)
            except LigerdiagError:
                pass
            else:
                require_complete(report)
                cases = report.cases
                if len(cases) == count * len(specs) and all(one.id == self._case.id for one in cases):
                    return [cases[number * count : (number + 1) * count] for number in range(len(specs))]
        return [self._check_alone(one) for one in specs]  # one of them does not import, and reports have no source

    def _check_alone(self, spec: CaseSpec) -> tuple[CaseReport, ...] | str:
        try:
            report = check(replace(self._options, selectors=(spec,)), self._report_progress)
        except LigerdiagError as error:
            return str(error)
        require_complete(report)
        if len(report.cases) != len(self._base):
            return "the changed file has no such case"
        return report.cases

    def _compare(self, pairs: list[tuple[Artifact, Artifact]], *, opaquely: bool = False) -> list[MeaningAnswer]:
        """Returns whether the programs of each pair compute the same. opaquely: with opaque functions in place of the
        kernels.
        """
        toolchain = provide_toolchain(self._options.toolchain, self._cache, lambda _: None)
        declared = (*self._options.effects, *parse_declared(self._case))
        with Templates() as templates, open_readers(toolchain, self._cache, templates) as readers:

            def find_effects(*programs: HloModule) -> Callable[[HloInstruction], CallEffects]:
                reader = CallEffectsReader(
                    cache=self._cache.root / "effects",
                    declared=declared,
                    readers=None if toolchain.is_own else readers,
                )
                reader.read(*programs)
                return reader.find

            return compare_meanings(
                self._case.source,
                self._case.id,
                pairs,
                cache=self._cache,
                templates=templates,
                timeout=self._options.timeout,
                find_readers=None if toolchain.is_own else lambda _: readers,
                find_effects=find_effects if opaquely else None,
            )

    def _find_fault(self, reports: Sequence[CaseReport]) -> str:
        """Returns the reason why the changed program is not right; empty if it is, perhaps by luck."""
        for before, after in zip(self._base, reports, strict=True):
            if after.status is Status.ERROR or after.error:
                return (after.error or after.status.value).splitlines()[0]
            if after.outputs.keys() != before.outputs.keys():
                return "it changes the outputs of the program"
            wrong = [f"`{name}` is {verdict.value}" for name, verdict in after.outputs.items() if not verdict.is_right]
            if wrong:
                return join_words(wrong[:3])
            if after.disagreements:
                return "verdicts and numbers of the changed program contradict each other"
            old = {one.rule for one in before.findings if one.severity is not Severity.NOTE}
            new = [one for one in list_hazards(after) if one.rule not in old and not is_about_luck(one, after)]
            if new:
                return f"it causes {new[0].rule}: {new[0].message}"
            if len(list_hazards(after)) >= len(list_hazards(before)) and before.outputs == after.outputs:
                return f"{list_hazards(before)[0].rule} stays"
        return ""

    def _conclude(
        self,
        reports: tuple[CaseReport, ...] | str,
        meaning: MeaningAnswer | None,
        opaque: MeaningAnswer | None,
        undefined: Sequence[str],
    ) -> CureTrial:
        if isinstance(reports, str):
            return CureTrial(proof=Proof.REFUTED, reason=reports, costs={})
        fault = self._find_fault(reports)
        costs = {
            after.target: cost
            for before, after in zip(self._base, reports, strict=True)
            if (cost := _compute_cost(before, after)) is not None
        }
        rules = sorted({one.rule for report in reports for one in list_hazards(report)})
        proof, reason, compared = Proof.PROVED, "", False
        corrected = self._list_corrected(reports)
        if fault:
            proof, reason = Proof.REFUTED, fault
        elif meaning is None:
            proof = Proof.NOT_COMPARED
        elif different := [name for name in meaning.different if name not in undefined and name not in corrected]:
            names = join_words([f"`{name}`" for name in different[:3]])
            proof = Proof.OTHER_PROGRAM
            reason = f"{names} would not be what the program as written computes"
            if rule := self._find_change_by_jax():
                reason += f"; JAX changes the program ({rule}): give the case a `reference` to compare with"
        elif doubt := self._find_doubt(meaning, opaque):
            proof, reason = Proof.NOT_COMPARED, doubt
        else:
            compared = True
            latent = [name for one in reports for name, verdict in one.outputs.items() if verdict is Verdict.LATENT]
            undone = [one for one in reports if not _has_numbers(one)]
            if latent:
                words = join_words([f"`{name}`" for name in dict.fromkeys(latent)])
                proof, reason = Proof.LATENT, f"nothing forces the order of {words}"
            elif undone:
                proof, reason = Proof.NOT_COMPARED, f"{count_of(len(undone), 'schedule')} could not be replayed"
            elif meaning.different and corrected.issuperset(meaning.different):
                names = join_words([f"`{name}`" for name in meaning.different])
                verb = "equals" if len(meaning.different) == 1 else "equal"
                reason = f"except {names}, which now {verb} the case's reference"
            elif undefined:
                reason = f"{join_words([f'`{name}`' for name in undefined])} had no defined value before"
            elif opaque is not None:
                reason = self._explain_opaque(meaning, opaque)
        return CureTrial(
            proof=proof,
            reason=reason,
            reports=reports,
            is_compared=compared,
            costs=costs,
            left=tuple(rules),
        )

    def _find_doubt(self, meaning: MeaningAnswer, opaque: MeaningAnswer | None) -> str:
        """Returns why the numbers do not show that the changed program means the same; empty if they do, be it with opaque
        functions in place of kernels.
        """
        names = join_words([f"`{name}`" for name in self._silent[:3]])
        doubt = meaning.reason or (
            f"stale and intended numbers of {names} are equal on the drawn inputs" if names else ""
        )
        if not doubt or opaque is None:
            return doubt
        kernels = join_words([f"`{one}`" for one in opaque.kernels])
        needed = self._list_wrong() if meaning.reason else self._silent
        if opaque.reason:
            return f"{doubt}, and {opaque.reason}"
        if meaning.reason and not opaque.has_same_code:
            return f"{doubt}, and the code of {kernels} is not the same in both programs"
        if opaque.different:
            return f"{doubt}, and `{opaque.different[0]}` differs with opaque functions in place of {kernels}"
        if silent := [name for name in needed if name not in opaque.telling]:
            return f"{doubt}, and opaque functions in place of {kernels} do not show a lost write in `{silent[0]}`"
        return ""

    def _explain_opaque(self, meaning: MeaningAnswer, opaque: MeaningAnswer) -> str:
        kernels = join_words([f"`{one}`" for one in opaque.kernels])
        if meaning.reason:
            return f"compared with opaque functions in place of {kernels}, since {meaning.reason}"
        names = join_words([f"`{name}`" for name in self._silent])
        return f"{names} compared with opaque functions in place of {kernels} as well, since the numbers show no lost write"

    def _list_corrected(self, reports: Sequence[CaseReport]) -> set[str]:
        """Returns the outputs that differ from the case's reference in the unchanged program, run as written, and that equal
        it in the changed one: there the reference, and not the program, says what the author means.
        """
        known = [set[str]() if one.replay is None else set(one.replay.reference) for one in reports]
        if not self._case.has_reference or not known:
            return set()
        return _list_wrong_as_written(self._base).intersection(*known) - _list_wrong_as_written(reports)

    def _list_undefined(self) -> list[str]:
        """Returns the outputs that have no defined value in the unchanged case, because of memory that nothing writes."""
        names: dict[str, None] = {}
        for report in self._base:
            if any(get_rule(one.rule).leaves_undefined for one in list_hazards(report)):
                names |= {name: None for name, verdict in report.outputs.items() if verdict is Verdict.UNKNOWN}
        return list(names)

    def _find_change_by_jax(self) -> str:
        """Returns the rule that found that JAX changes the program, if no reference says what the case means; else empty."""
        found = (one.rule for report in self._base for one in list_hazards(report))
        if self._case.has_reference:
            return ""
        return next((one for one in found if get_rule(one).kind is RuleKind.CHANGED_BY_JAX), "")

    def _list_wrong(self) -> list[str]:
        """Returns the outputs that are wrong in the unchanged case."""
        wrong = (name for one in self._base for name, verdict in one.outputs.items() if verdict.is_wrong)
        return [*dict.fromkeys(wrong)]

    @cached_property
    def _silent(self) -> list[str]:
        """Returns the wrong outputs whose numbers cannot show a change of the program: the schedule's own ones and the stale
        ones are those that are intended.
        """
        names: dict[str, None] = {}
        for report in self._base:
            for name, verdict in report.outputs.items():
                one = None if report.replay is None else report.replay.outputs.get(name)
                tells = one is None or not (one.distance <= one.tolerance and one.error <= one.tolerance)  # NaN tells
                if verdict.is_wrong and not tells:
                    names[name] = None
        return [*names]


def _has_numbers(report: CaseReport) -> bool:
    """Returns whether the schedule was replayed, be it with opaque functions in place of kernels."""
    runs = () if report.replay is None else (report.replay, report.replay.opaque)
    return any(one is not None and one.state is ReplayState.DONE for one in runs)


def _list_wrong_as_written(reports: Sequence[CaseReport]) -> set[str]:
    """Returns the outputs that differ from the case's reference in program order, or that a workaround rounds there."""
    return {
        name
        for report in reports
        for one in report.findings
        if get_rule(one.rule).kind in (RuleKind.REFERENCE, RuleKind.ROUNDING)
        for name in one.outputs
    }


def is_about_luck(finding: Finding, report: CaseReport) -> bool:
    """Returns whether a finding is only about outputs that are right by luck.

    Reports leave out such a finding, because the proof of a cure mentions these outputs already.
    """
    verdicts = {report.outputs.get(name) for name in finding.outputs}
    return verdicts == {Verdict.LATENT}


def _get_reports(found: tuple[CaseReport, ...] | str) -> tuple[CaseReport, ...]:
    assert not isinstance(found, str)
    return found


def _compute_cost(before: CaseReport, after: CaseReport) -> Cost | None:
    if before.memory is None or after.memory is None:
        return None
    copied = after.memory.copied - before.memory.copied
    bandwidth = after.memory.bandwidth
    return Cost(
        reserved=after.memory.reserved - before.memory.reserved,
        peak=after.memory.peak - before.memory.peak,
        copied=copied,
        milliseconds=2 * copied / bandwidth * 1e3 if bandwidth else None,
    )


def list_traced_lines(reports: Sequence[CaseReport]) -> frozenset[tuple[Path, int]]:
    """Returns (real path of a file, line) for each line of the programs of these reports, those of the callers included.
    A line that only JAX drops, because nothing uses its result, is missing. So is a line that computes no array.

    Raises ArtifactError if an artifact cannot be read.
    """
    found: set[tuple[str, int]] = set()
    for path in dict.fromkeys(one.artifact for one in reports if one.artifact):
        module, _ = load_hlo(load_artifact(Path(path)).program)
        for computation in module.computations.values():
            for instruction in computation.instructions:
                found |= {(frame.file, frame.line) for frame in iterate_user_frames(module, instruction)}
    paths = {name: Path(os.path.realpath(name)) for name in {name for name, _ in found}}
    return frozenset((paths[name], line) for name, line in found)
