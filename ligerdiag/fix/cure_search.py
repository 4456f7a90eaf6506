"""Searches for a change of the source that makes every output of a case fresh.

The cures are tried in the order of `CURES`, which is the one that people prefer. A cure of a call is applied to all calls
that the case's findings name: first without changing its callers, then so that its callers get the new contents, too. The
cures of `VARIED` change an argument elsewhere; each has several forms, one for each value or place of that argument. Of the
cures that are proved, the best is the one after which the fewest rules have findings. Among equals, it is the one that needs
the least memory, then the one with the smallest diff, then the first.

If none is proved, a cure that removes some of the findings may be one half of the solution. Then the other cures are tried
on the changed source, for the remaining findings. The two together are judged as one change of the original program.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from functools import cached_property
from pathlib import Path

from ligerdiag.api.checking import check
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import discover_cases
from ligerdiag.errors import InputError
from ligerdiag.fix.call_site import CallSite, ChangedCaller, Project, find_call_site
from ligerdiag.fix.case_arguments import (
    advise_flags,
    list_donations,
    list_fewer_donations,
    list_flags,
    list_kept_arguments,
)
from ligerdiag.fix.cure_trials import CureTrial, Trials, list_hazards, list_traced_lines, require_complete
from ligerdiag.fix.declared_aliases import Circumstances, call_in_place, declare, declare_in_shards, store_out_of_place
from ligerdiag.fix.other_cases import OtherCasesJudge
from ligerdiag.fix.other_cures import keep_apart, pass_copy, pass_ref, read_zeroed, tie_readers, zero_outputs
from ligerdiag.fix.readers.callers import UnreachedCallerError
from ligerdiag.fix.records import Attempt, CaseFix, Proof, Texts
from ligerdiag.fix.results.caller_remarks import describe_unseen_writes
from ligerdiag.fix.results.steps_by_hand import describe_step
from ligerdiag.fix.source_file import CannotFixError, UnrelatedCureError
from ligerdiag.fix.traced_values import list_fewer_aliases, list_filled, list_traced_zeros
from ligerdiag.fix.wrapper_modes import list_wrapper_modes
from ligerdiag.model.findings import CallPlace, Finding
from ligerdiag.model.jobs import CaseSpec
from ligerdiag.model.report import CaseReport, CheckReport, OnProgress, Status
from ligerdiag.report.causes import compute_causes
from ligerdiag.rules.call_patch import FINDS_CALLERS
from ligerdiag.run_options import CheckOptions
from ligerdiag.source_text import compute_near
from ligerdiag.text import join_words, suggest
from ligerdiag.toolchains.environments import provide_toolchain
from ligerdiag.workers.pool import Pool

_DEPTHS = 3
"""Number of callers that may get the new contents."""
_FIRST_WITHOUT_POINTERS = (0, 4)
"""The first version of jax-triton that passes the kernel no pointer for an output that aliases an operand."""

_MOST_NAMED = 3
"""Number of places that a reason names."""
_MOST_HALVES = 2
"""Number of cures on whose result the others are tried if none is proved alone."""
_BESIDE = " + "
"""The text between the names of two cures."""

type Apply = Callable[[Project, Sequence[CallSite], Circumstances], None]
type ListVariants = Callable[[Project, Sequence[Finding], CaseSpec], list[list[Texts]]]
"""Returns the changed texts of each form of a cure, in batches: a batch is judged if none of the batches before it helps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cure:
    """A kind of change at the kernel's call in the source that may make a program right."""

    name: str
    about: str
    """The change, in a few words."""
    apply: Apply
    is_safe: bool = True
    """Whether right verdicts on the changed program are enough for the cure to be right. An unsafe cure also depends on code
    that no case runs.
    """
    is_deep: bool = False
    """Whether the cure may require that callers of the function use another value than before."""
    same_as: str = ""
    """Name of another cure that makes the same change in other words; empty if there is none."""
    advice: str = ""
    """An action that the user has to take in addition to the diff; empty if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariedCure:
    """A kind of change, in several forms, that may make a program right. It changes the source at another place than the
    kernel's call.
    """

    name: str
    about: str
    list_variants: ListVariants
    is_safe: bool = True
    is_defining: bool = False
    """Whether the cure defines the value of outputs that the unchanged program leaves undefined."""
    keeps_program: bool = False
    """Whether the cure leaves the function unchanged, and affects only how it is compiled or how much memory it uses."""
    advise: Callable[[Sequence[Finding]], str] = lambda _: ""
    """Function that returns the action that the user has to take in addition to the diff."""


CURES = (
    Cure(name="declare", about="an output that aliases the operand", apply=declare, is_deep=True),
    Cure(
        name="call-in-place",
        about="`ligerdiag.in_place.call_in_place`, which declares the alias with every jax-triton",
        apply=call_in_place,
        is_deep=True,
        same_as="declare",
    ),
    Cure(
        name="out-of-place",
        about="the kernel stores into an output with bytes of its own",
        apply=store_out_of_place,
        is_deep=True,
    ),
    Cure(
        name="shard-map",
        about="the declared alias, in a `jax.shard_map`: each device calls the kernel on its own rows",
        apply=declare_in_shards,
        is_deep=True,
        advice="where the program runs, `jax.set_mesh` has to give the mesh",
    ),
    Cure(
        name="barrier", about="an optimization barrier, at which later readers wait for the kernel", apply=tie_readers
    ),
    Cure(name="keep-apart", about="barriers around a call that XLA fuses with slices", apply=keep_apart),
    Cure(name="ref", about="a Ref; silently wrong under `jax.checkpoint`", apply=pass_ref, is_safe=False),
    Cure(name="copy", about="a copy of the operand, which XLA may drop again", apply=pass_copy, is_safe=False),
)
ZERO = Cure(
    name="zero-outputs",
    about="the launcher zeroes an output before the kernel runs",
    apply=lambda project, sites, given: None,
)
VARIED = (
    VariedCure(
        name="mode",
        about="another value of the argument by which a wrapper chooses how to call the kernel",
        list_variants=list_wrapper_modes,
        is_defining=True,
    ),
    VariedCure(
        name="traced-zeros",
        about="zeros that wait for a value of the loop, so that JAX does not move them out of it",
        list_variants=list_traced_zeros,
    ),
    VariedCure(
        name="filled",
        about="zeros in memory that a kernel reads before anything is written there",
        list_variants=list_filled,
        is_defining=True,
    ),
    VariedCure(
        name="one-alias", about="each operand and each output in one alias at most", list_variants=list_fewer_aliases
    ),
    VariedCure(
        name="no-donation",
        about="arguments that are no longer donated",
        list_variants=list_fewer_donations,
        keeps_program=True,
    ),
    VariedCure(
        name="keep-unused",
        about="`keep_unused=True`, so that a donated argument that is never read keeps its bytes",
        list_variants=list_kept_arguments,
        keeps_program=True,
    ),
    VariedCure(
        name="xla-flag",
        about="a flag of XLA, if the fault is XLA's",
        list_variants=list_flags,
        keeps_program=True,
        advise=advise_flags,
    ),
    VariedCure(
        name="donate",
        about="a donated argument, which the caller no longer uses",
        list_variants=list_donations,
        keeps_program=True,
        is_safe=False,
    ),
)
_KEEPING = frozenset(one.name for one in VARIED if one.keeps_program)
CURE_NAMES = (*(one.name for one in CURES), ZERO.name, *(one.name for one in VARIED))


MOST_OTHER_CASES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FixOptions:
    """Options of `fix`."""

    check: CheckOptions
    cures: tuple[str, ...] = ()
    """Names of the cures to try; () for all."""
    is_unsafe: bool = False
    """Whether to try unsafe cures as well, and to offer a cure that is not proved."""
    other_cases: int = MOST_OTHER_CASES
    """Number of other cases of the changed files that are judged for a cure that would be offered."""


def find_fixes(options: FixOptions, on_progress: OnProgress | None = None) -> tuple[CaseFix, ...]:
    """Searches a cure for each selected case, and returns one result for each. Raises InputError for an unknown cure,
    RunEnded if the run is ended early, and the errors of `check`.
    """
    for name in options.cures:
        if name not in CURE_NAMES:
            raise InputError(f"expected a cure, such as `declare`, but got `{name}`{suggest(name, CURE_NAMES)}")
    report = check(options.check, on_progress)
    require_complete(report)
    specs = _list_specs(options.check)
    fixes: list[CaseFix] = []
    for case_id, reports in _group(report.cases).items():
        spec = specs.get(case_id)
        faulty = next((one for one in reports if one.status in (Status.ERROR, Status.NOT_CHECKED)), None)
        if faulty is not None or spec is None:
            error = "no such case" if faulty is None else faulty.error
            fixes.append(
                CaseFix(case_id=case_id, error=error, exit_code=0 if faulty is None else faulty.error_exit_code)
            )
            continue
        fixes.append(fix_case(spec, reports, options, report, on_progress, selected=tuple(specs.values())))
    return tuple(fixes)


def _group(cases: Iterable[CaseReport]) -> dict[str, list[CaseReport]]:
    groups: dict[str, list[CaseReport]] = {}
    for one in cases:
        groups.setdefault(one.id, []).append(one)
    return groups


def _list_specs(options: CheckOptions) -> dict[str, CaseSpec]:
    cache = Cache(options.cache_directory)
    toolchain = provide_toolchain(options.toolchain, cache, lambda _: None)
    with Pool(cache=cache, toolchain=toolchain, jobs=1, timeout=options.timeout) as pool:
        found = discover_cases(options.selectors, pool=pool, on_broken=lambda source, error: None)
    return {one.id: one for one in found}


def fix_case(
    case: CaseSpec,
    reports: Sequence[CaseReport],
    options: FixOptions,
    run: CheckReport,
    on_progress: OnProgress | None = None,
    *,
    selected: Sequence[CaseSpec] = (),
) -> CaseFix:
    """Searches a cure for one case, and returns the result.

    reports: the reports on the case, one for each target. selected: all cases of the run. The cases among them that load a
    changed file are judged, too.
    """
    hazards = [one for report in reports for one in list_hazards(report)]
    answer = CaseFix(
        case_id=case.id,
        hazards=tuple(dict.fromkeys(f"{one.rule}: {one.message}" for one in hazards)),
        verdicts={report.target: report.outputs for report in reports},
        remedies=_list_remedies(reports),
        not_covered=tuple(dict.fromkeys(line for report in reports for line in report.coverage.not_covered)),
    )
    if not hazards:
        return answer
    search = _Search(case, reports, options, run, on_progress)
    attempts = search.try_cures(hazards)
    if not any(map(_is_proved, attempts)):
        attempts += search.try_pairs(attempts, hazards)
    judge = OtherCasesJudge(
        case=case,
        selected=selected,
        options=search.check_options,
        most=options.other_cases,
        report_progress=on_progress,
    )
    offered = [one for one in attempts if one.is_offered and (options.is_unsafe or not one.needs_unsafe)]
    for one in sorted(offered, key=rank_attempt):
        judged = replace(one, others=judge.judge(one.files))
        if judged.others.worse:
            judged = replace(judged, proof=Proof.REFUTED, reason=_describe_worse(judged.others.worse))
        attempts[attempts.index(one)] = judged
        if not judged.others.worse:
            return replace(answer, attempts=tuple(attempts), best=judged)
    return replace(answer, attempts=tuple(attempts))


def _describe_worse(worse: Sequence[str]) -> str:
    more = f", and {len(worse) - 1} more cases are worse" if len(worse) > 1 else ""
    return f"it makes another case worse: {worse[0]}{more}"


def rank_attempt(attempt: Attempt) -> tuple[bool, bool, bool, int, int, int, int]:
    """Returns a sort key for attempts; the best attempt has the smallest key. Memory comes before the size of the diff,
    because a kernel works in place to save memory, and a case often has smaller arrays than the real program.
    """
    costs = [one.reserved + one.copied for one in attempt.costs.values()]
    return (
        attempt.proof is not Proof.PROVED,
        not any(attempt.verdicts.values()),
        not attempt.is_safe,
        len(attempt.left),
        max(costs, default=sys.maxsize),
        attempt.changed_lines,
        CURE_NAMES.index(attempt.cure.partition(_BESIDE)[0]),
    )


def _refuse(cure: Cure | VariedCure, reason: str) -> Attempt:
    return Attempt(cure=cure.name, is_safe=cure.is_safe, proof=Proof.NOT_APPLICABLE, reason=reason, refusal=reason)


def _list_remedies(reports: Sequence[CaseReport]) -> tuple[str, ...]:
    """Returns the help that `check` prints for the findings that a cure should remove, each once, without the hint that
    `fix` finds callers: the help is read where `fix` refuses to change them.
    """
    causes = [
        cause
        for one in reports
        for cause in compute_causes(list_hazards(one), tuple(one.outputs), one.source_roots)
        if cause.follows_from is None
    ]
    return tuple(dict.fromkeys(cause.help.replace(FINDS_CALLERS, "") for cause in causes if cause.help))


def _is_proved(attempt: Attempt | None) -> bool:
    return attempt is not None and attempt.proof is Proof.PROVED


class _Search:
    def __init__(
        self,
        case: CaseSpec,
        reports: Sequence[CaseReport],
        options: FixOptions,
        run: CheckReport,
        on_progress: OnProgress | None,
    ) -> None:
        self._case, self._reports, self._options = case, reports, options
        self._run, self._on_progress = run, on_progress
        self._half: Attempt | None = None
        """The cure whose result the cures of this search change further; None for the unchanged program."""
        self._places: list[CallPlace] = []
        self._originals: dict[Path, bytes] = {}
        self._texts: list[tuple[Path, str]] = []
        self._unread: list[str] = []
        self._roots = tuple(dict.fromkeys(root for one in reports for root in one.source_roots))
        self.check_options = replace(options.check, baseline=None, known=None, view=False, record=False)
        self._trials = Trials(case, reports, self.check_options, on_progress)
        version = run.versions.get("jax-triton", "0.3").split(".")
        numbers = tuple(int(part) for part in version[:2] if part.isdecimal())
        self._is_old = numbers < _FIRST_WITHOUT_POINTERS

    def try_cures(self, hazards: Sequence[Finding]) -> list[Attempt]:
        """Returns one attempt for each cure, in the order of preference. A cure that only spells another one differently
        is left out if that one is proved, unless the user asks for it.
        """
        self._places = _list_places(hazards)
        cures = [one for one in (*CURES, ZERO) if not self._options.cures or one.name in self._options.cures]
        cures = [one for one in cures if one.is_safe or self._options.is_unsafe or self._options.cures]
        names = {one.name for one in cures}
        attempts = self._try_together([one for one in cures if one.same_as not in names], hazards)
        proved = {name for name, one in attempts.items() if one.proof is Proof.PROVED}
        rest = [one for one in cures if one.same_as in names and one.same_as not in proved]
        attempts |= self._try_together(rest, hazards)
        varied = [one for one in VARIED if not self._options.cures or one.name in self._options.cures]
        for cure in varied:
            if cure.is_safe or self._options.is_unsafe or self._options.cures:
                found = self._try_variants(cure, hazards)
                if found is not None:
                    attempts[cure.name] = found
        return [attempts[name] for name in CURE_NAMES if name in attempts]

    def try_pairs(self, attempts: Sequence[Attempt], hazards: Sequence[Finding]) -> list[Attempt]:
        """Returns the proved attempts of two cures together. The first one is an attempt that removes some of the findings,
        and the second one is tried on what it leaves.
        """
        counts = {one.cure: sum(len(list_hazards(report)) for report in one.reports) for one in attempts}
        halves = [one for one in attempts if one.is_safe and one.files and 0 < counts[one.cure] < len(hazards)]
        for half in sorted(halves, key=lambda one: counts[one.cure])[:_MOST_HALVES]:
            further = _Search(self._case, self._reports, self._options, self._run, self._on_progress)
            further._half = half
            further._originals |= half.files
            left = [one for report in half.reports for one in list_hazards(report)]
            found = [one for one in further.try_cures(left) if _is_proved(one)]
            if found:
                return found
        return []

    def _try_variants(self, cure: VariedCure, hazards: Sequence[Finding]) -> Attempt | None:
        """Returns the best form of a cure; None if it is for another kind of hazard. The forms of a batch are judged if no
        earlier one leaves nothing to report.
        """
        best: Attempt | None = None
        try:
            listed = cure.list_variants(self._make_project(), hazards, self._case)
            batches = [[self._add_half(texts) for texts in batch] for batch in listed]
        except CannotFixError as error:
            if isinstance(error, UnrelatedCureError) and not self._options.cures:
                return None
            return _refuse(cure, str(error))
        for batch in batches:
            for texts in batch:
                _require_python(texts)
            judgements = self._trials.judge(
                batch,
                defining=batch if cure.is_defining else (),
                keeps_program=cure.keeps_program and (self._half is None or self._half.cure in _KEEPING),
            )
            found = [
                self._make_attempt(cure, *one, advice=cure.advise(hazards))
                for one in zip(batch, judgements, strict=True)
            ]
            if best is not None:
                found.append(best)
            best = min(found, key=rank_attempt, default=None)
            if best is not None and _is_proved(best) and not best.left:
                break
        return best

    def _make_project(self) -> Project:
        root = Path(self._case.source.root)
        return Project(root=root, roots=self._roots, originals=self._originals, texts=self._texts, unread=self._unread)

    def _make_attempt(
        self,
        cure: Cure | VariedCure,
        texts: Texts,
        judgement: CureTrial,
        *,
        project: Project | None = None,
        changes_callers: bool = False,
        advice: str = "",
    ) -> Attempt:
        unproved = [one for one in (project.changed_callers if project else ()) if not self._is_run(one)]
        half = self._half or Attempt(cure="", is_safe=True, proof=Proof.REFUTED)
        originals = {path: half.originals.get(path, self._originals[path]) for path in texts}
        diff = render_diff(texts, originals)
        hidden = _explain_hidden_readers(judgement, project)
        project = project or self._make_project()
        return Attempt(
            cure=f"{half.cure}{_BESIDE}{cure.name}" if half.cure else cure.name,
            is_safe=cure.is_safe,
            proof=judgement.proof,
            reason="; ".join(filter(None, (judgement.reason, hidden))),
            refusal=hidden,
            files=texts,
            originals=originals,
            diff=diff,
            changed_lines=_count_changed(diff),
            verdicts={one.target: one.outputs for one in judgement.reports},
            costs=judgement.costs,
            is_compared=judgement.is_compared,
            left=judgement.left,
            reports=judgement.reports,
            changes_callers=changes_callers or half.changes_callers,
            unproved_callers=_merge(half.unproved_callers, [one.place for one in unproved]),
            remarks=_merge(half.remarks, [*project.remarks, *describe_unseen_writes(unproved)]),
            unseen=_merge(half.unseen, [one for one in project.list_unseen() if one not in project.kept_uses]),
            also_changed=_merge(half.also_changed, project.also_changed),
            not_changed=_merge(half.not_changed, project.not_changed),
            next_step=describe_step(project, self._places) if hidden else "",
            advice="; ".join(filter(None, (half.advice, advice))),
        )

    @cached_property
    def _traced(self) -> frozenset[tuple[Path, int]]:
        return list_traced_lines(self._reports if self._half is None else self._half.reports)

    def _is_run(self, caller: ChangedCaller) -> bool:
        """Returns whether the case makes this call."""
        first, last = caller.lines
        return any((caller.path, line) in self._traced for line in range(first, last + 1))

    def _add_half(self, texts: Texts) -> Texts:
        """Returns these texts, and those that the first one of two cures changes."""
        return texts if self._half is None else {**self._half.files, **texts}

    def _try_together(self, cures: Sequence[Cure], hazards: Sequence[Finding]) -> dict[str, Attempt]:
        """Returns the attempt of each of these cures by its name: the one that changes the fewest callers and helps."""
        places = _list_places(hazards)
        attempts: dict[str, Attempt] = {}
        unreached: set[str] = set()
        for depth in range(_DEPTHS + 1):
            open_cures = [one for one in cures if one.name not in attempts or not attempts[one.name].is_offered]
            made: list[tuple[Cure, Texts, Project]] = []
            is_unreached = False
            for cure in open_cures if depth == 0 else [one for one in open_cures if one.is_deep]:
                try:
                    texts, project = self._apply(cure, places, hazards, depth)
                    if cure.name not in attempts or attempts[cure.name].files != texts:
                        made.append((cure, texts, project))
                except CannotFixError as error:
                    if isinstance(error, UnrelatedCureError) and not self._options.cures:
                        continue
                    earlier = None if cure.name in unreached else attempts.get(cure.name)
                    attempts[cure.name] = self._join(earlier, cure, str(error))
                    unreached -= {cure.name}
                    if isinstance(error, UnreachedCallerError):  # which says nothing if more callers are changed
                        unreached.add(cure.name)
                        is_unreached = True
            judgements = self._trials.judge(
                [texts for _, texts, _ in made], defining=[texts for cure, texts, _ in made if cure is ZERO]
            )
            for (cure, texts, project), judgement in zip(made, judgements, strict=True):
                attempts[cure.name] = self._make_attempt(
                    cure, texts, judgement, project=project, changes_callers=depth > 0, advice=cure.advice
                )
            if not (made or is_unreached) or any(one.is_deep and _is_proved(attempts.get(one.name)) for one in cures):
                break
        return attempts

    def _join(self, earlier: Attempt | None, cure: Cure, reason: str) -> Attempt:
        """Returns the attempt of a cure that cannot be applied at all, or not to callers as well."""
        if earlier is None:
            return _refuse(cure, reason)
        if reason in earlier.reason:
            return earlier
        return replace(earlier, reason=f"{earlier.reason.partition('; and ')[0]}; and {reason}", refusal=reason)

    def _apply(
        self, cure: Cure, places: Sequence[CallPlace], hazards: Sequence[Finding], depth: int
    ) -> tuple[Texts, Project]:
        """Returns the new text of each file that the cure changes, and the project, which names the calls that the cure
        changes or may miss. Raises CannotFixError.
        """
        project = self._make_project()
        if cure is ZERO:
            zeroed = [one for one in hazards if read_zeroed(one.help) and one.source is not None]
            if not zeroed:
                raise UnrelatedCureError("no finding is about an output that a kernel leaves unwritten")
            calls = {(one.source, read_zeroed(one.help)): None for one in zeroed}
            sites = [find_call_site(project, CallPlace(line=line), needs_writes=False) for line, _ in calls]
            zero_outputs(project, sites, [numbers for _, numbers in calls])
        else:
            if not places:
                raise UnrelatedCureError("no finding is about a call that overwrites an operand")
            sites = _find_sites(project, places)
            axes = tuple(name for name, size in self._case.mesh.items() if size > 1)
            cure.apply(project, sites, Circumstances(is_old=self._is_old, depth=depth, axes=axes))
        texts = {path: file.render() for path, file in project.files.items() if file.is_changed}
        if not texts:
            raise CannotFixError("there is nothing to change")
        _require_python(texts)
        return self._add_half(texts), project


def _explain_hidden_readers(judgement: CureTrial, project: Project | None) -> str:
    """Returns why a cure changes the results if a reader of the overwritten array may be a caller that the source does not
    show; empty if there is no such place.
    """
    unseen = () if project is None else project.list_unseen()
    if judgement.proof is not Proof.OTHER_PROGRAM or not unseen:
        return ""
    more = f" and {len(unseen) - _MOST_NAMED} more" if len(unseen) > _MOST_NAMED else ""
    return (
        "a caller that reads the overwritten array may reach the function by "
        f"{join_words(unseen[:_MOST_NAMED])}{more}, which `fix` cannot follow"
    )


def _require_python(texts: Texts) -> None:
    """Raises SyntaxError for a changed text that Python cannot parse: a bug of the cure."""
    for text in texts.values():
        compile(text, "patch", "exec", dont_inherit=True)


def _list_places(hazards: Sequence[Finding]) -> list[CallPlace]:
    """Returns the calls that the findings name, each once."""
    found: dict[tuple[object, str], CallPlace] = {}
    for one in hazards:
        for finding in (one, *one.parts):
            call = finding.call
            if call is not None:
                found.setdefault((call.line, call.kernel), call)
    return list(found.values())


def _merge(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def _find_sites(project: Project, places: Sequence[CallPlace]) -> list[CallSite]:
    """Returns each call once, even if two findings name it by different lines."""
    sites: dict[object, CallSite] = {}
    for place in places:
        site = find_call_site(project, place)
        sites.setdefault(site.call, site)
    return list(sites.values())


def render_diff(texts: Texts, originals: Texts | None = None) -> str:
    """Returns a unified diff with paths relative to the working directory, as `git apply` reads it. texts: the new text of
    each file. originals: the old text of each file; None means the text on disk.
    """
    parts: list[str] = []
    for path, text in sorted(texts.items()):
        before = path.read_bytes() if originals is None else originals[path]
        old, new = before.decode("utf-8"), text.decode("utf-8")
        name = compute_near(str(path)).lstrip("/")
        for line in unified_diff(
            old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{name}", f"b/{name}", n=3
        ):
            parts.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return "".join(parts)


def _count_changed(diff: str) -> int:
    lines = diff.splitlines()
    return sum(one[:1] in "+-" and one[:3] not in ("+++", "---") for one in lines if one)
