"""Writes the body of a bug report about the only case of a run that has something to report.

The body needs more than the report of the run: the program, the flags of the compile, the bisections that show what
changes the result, and the module to attach. This module collects them.
"""

import platform
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ligerdiag.api.case_excerpt import collect_excerpt, name_program
from ligerdiag.api.comparing import bisect
from ligerdiag.artifacts.artifact import Artifact, load_artifact
from ligerdiag.artifacts.cache import Cache
from ligerdiag.effects.declared import parse_declarations
from ligerdiag.errors import ArtifactError, InputError, LigerdiagError
from ligerdiag.model.findings import Finding, Verdict
from ligerdiag.model.jobs import Source
from ligerdiag.model.report import CaseReport, CheckReport, Noun, OnProgress
from ligerdiag.reduce.reduce_case import Reduced
from ligerdiag.reduce.trace_jobs import TRACE_WORKER, make_hlo_text_job
from ligerdiag.report.comparisons import Axis, Bisection
from ligerdiag.report.issue import IssueFacts, ProgramSource, find_issue_subject, render_issue
from ligerdiag.report.issue.program_imports import list_imports
from ligerdiag.rules.registry import get_rule
from ligerdiag.run_options import BisectOptions, CheckOptions, ReduceOptions
from ligerdiag.toolchains.toolchain import current_toolchain
from ligerdiag.toolchains.toolchain_table import DEFAULT
from ligerdiag.workers.pool import Pool

AXES = (Axis.PASSES, Axis.FLAGS, Axis.TARGETS, Axis.TOOLCHAINS)
"""The properties that a bug report can vary: those that leave the program unchanged."""


def describe_issue(
    report: CheckReport,
    *,
    bisections: Sequence[Bisection] = (),
    attached: Sequence[str] = (),
    program: ProgramSource | None = None,
    rule: str = "",
) -> str:
    """Returns the body of a bug report as Markdown.

    bisections: searches for passes, flags, targets or toolchains that change the result. attached: names of the files
    that are attached to the report. program: the program to show, by default the file that defines the case. rule: id or
    name of the rule whose finding to report, by default that of the most severe finding. Raises InputError if no case of
    the run has anything to report, or if several cases have.
    """
    renamed = report if program is None else _rename_candidates(report, program.name)
    subject = find_issue_subject(renamed, get_rule(rule).id if rule else "")
    case = subject.case
    shown = program or _load_program(case, report, subject.finding)
    artifact = _load_artifact(case)
    is_ours = report.noun is Noun.CASE
    provenance = artifact.provenance if artifact is not None and is_ours else None
    versions = provenance.versions if provenance is not None else report.versions if is_ours else dict[str, str]()
    facts = IssueFacts(
        program=shown,
        versions=versions,
        system=f"{platform.system()} {platform.machine()}" if is_ours else "",
        is_ours=is_ours,
        xla_flags=provenance.environment.get("XLA_FLAGS", "") if provenance is not None else "",
        options={} if provenance is None else {name: str(value) for name, value in provenance.flags.items()},
        driver=_read_driver() if case.device is not None else "",
        device_count=1 if provenance is None else provenance.devices,
        attached=tuple(attached),
        commands=() if shown is None else _list_commands(shown, case, versions),
        bisections=tuple(bisections),
    )
    return render_issue(subject, facts)


_DRIVER = Path("/proc/driver/nvidia/version")


def _read_driver() -> str:
    """Returns the version of this machine's NVIDIA driver; empty if there is none."""
    try:
        found = re.search(r"\s(\d+(?:\.\d+)+)\s", _DRIVER.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ""
    return found[1] if found else ""


def _load_program(case: CaseReport, report: CheckReport, finding: Finding | None) -> ProgramSource | None:
    """Returns the file that defines a case of this run, or, if it is long or imports files of its project, the parts that
    the case runs; None for a module that was compiled elsewhere, whose source
    nobody vouches for.
    """
    path = Path(case.source)
    if report.noun is not Noun.CASE or path.suffix != ".py":
        return None
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read `{path}`: {error}") from error
    name = name_program(path, case.source_roots)
    whole = ProgramSource(name=name, text=text, others=_list_others(path, text, case.source_roots))
    if finding is None or not whole.is_long:
        return whole
    return replace(whole, parts=collect_excerpt(finding, path, case.id, case.source_roots))


def _list_others(path: Path, text: str, roots: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of the modules that the program imports and that lie in its own project."""
    folders = (path.parent, *map(Path, roots))
    return tuple(
        name
        for name in list_imports(text)
        if name.startswith(".")
        or (name != "ligerdiag" and any((one / f"{name}.py").is_file() or (one / name).is_dir() for one in folders))
    )


def _load_artifact(case: CaseReport) -> Artifact | None:
    try:
        return load_artifact(Path(case.artifact)) if case.artifact else None
    except ArtifactError:
        return None


_PINNED = ("jax", "jax-triton", "triton")


def _list_commands(program: ProgramSource, case: CaseReport, versions: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the commands that install the packages which the program imports, and run or check it."""
    cuda = next((found[1] for name in versions if (found := re.search(r"(cuda\d+)-plugin$", name))), "")
    imports = list_imports(program.text)
    uses = {name: name.replace("-", "_") in imports or bool(program.others) or name == "jax" for name in _PINNED}
    pins = [f"{name}=={versions[name]}" for name in _PINNED if name in versions and uses[name]]
    pins = [pin.replace("jax==", f"jax[{cuda}]==") if pin.startswith("jax==") and cuda else pin for pin in pins]
    if program.is_standalone:
        return (shlex.join(["pip", "install", *pins]), shlex.join(["python", program.name]))
    words = ["ligerdiag", "check", f"{program.name}::{case.id}", "--target", case.target]
    runs = [shlex.join(["python", program.name]) + "  # on a GPU"] if "__main__" in program.text else []
    return (shlex.join(["pip", "install", "ligerdiag", *pins]), shlex.join(words), *runs)


def bisect_subject(
    report: CheckReport,
    axes: Sequence[Axis],
    options: CheckOptions,
    on_progress: OnProgress | None = None,
    *,
    toolchains: tuple[str, ...] = (),
) -> tuple[Bisection, ...]:
    """Bisects the case that the bug report is about, to find what changes its result.

    Returns one bisection for each axis. options: the options of the run. toolchains: names of the toolchains to compare,
    by default all that are installed. Raises InputError as `find_issue_subject` and `bisect` do. Also raises it if no
    output of the case is wrong or latent, because trials are compared by the verdicts on outputs.
    """
    case = find_issue_subject(report).case
    if not axes:
        return ()
    if not any(verdict.is_wrong or verdict is Verdict.LATENT for verdict in case.outputs.values()):
        raise InputError(
            f"`--bisect` compares the outputs of `{case.id}`, and the schedule makes none of them wrong: leave it out"
        )
    selectors = (f"{case.source}::{case.id}" if case.source else case.id,)
    found: list[Bisection] = []
    for axis in axes:
        found += bisect(
            BisectOptions(
                selectors=selectors,
                axis=axis,
                targets=() if axis is Axis.TARGETS else (case.target,),
                toolchain=DEFAULT if axis is Axis.TOOLCHAINS else options.toolchain,
                toolchains=toolchains if axis is Axis.TOOLCHAINS else (),
                jobs=options.jobs,
                timeout=options.timeout,
                cache_directory=options.cache_directory,
                replay=False,
                bounds=options.bounds,
                effects=options.effects,
            ),
            on_progress,
        )
    return tuple(found)


def print_module(report: CheckReport, cache_directory: Path | None) -> str:
    """Returns the optimized module of the case that the bug report is about, as XLA prints it.

    If XLA cannot print the module, returns the text that the HTML pages show, or an empty text if there is none. Raises
    InputError as `find_issue_subject` does.
    """
    case = find_issue_subject(report).case
    shown = "" if case.view is None else "\n".join((*case.view.text, ""))
    artifact = _load_artifact(case)
    if artifact is None or report.noun is not Noun.CASE:
        return shown
    source = Source(file=case.source, root=str(Path(case.source).parent))
    try:
        pool = Pool(cache=Cache(cache_directory), toolchain=current_toolchain(), jobs=1, module=TRACE_WORKER)
        with pool:
            return pool.submit(make_hlo_text_job(str(artifact.optimized), source)).result().text
    except LigerdiagError:
        return shown


def make_reduced_check(reduced: Reduced, options: ReduceOptions) -> CheckOptions:
    """Returns the options for a run of `check` on the reduced program, which is part of a bug report.

    They contain the effects that the case declares, because the file with the reduced program does not declare them.
    options: the options of the reduction.
    """
    own = parse_declarations(reduced.effects, place=f"`effects` of case `{reduced.case_id}` for `{{}}`")
    return CheckOptions(
        selectors=(reduced.case_file,),
        targets=(options.target,),
        toolchain=_choose_toolchain(reduced, options.toolchains or (DEFAULT,)),
        jobs=options.jobs,
        timeout=options.timeout,
        cache_directory=options.cache_directory,
        bounds=options.bounds,
        effects=(*options.effects, *own),
        view=True,
    )


def _choose_toolchain(reduced: Reduced, toolchains: Sequence[str]) -> str:
    """Returns the one of two toolchains with different verdicts with which an output of the reduced program is wrong."""
    verdicts = reduced.symptom.verdicts
    wrong = [name for name, word in zip(toolchains, verdicts, strict=False) if word and Verdict(word).is_wrong]
    return (*wrong, *toolchains[::-1])[0]


_CANDIDATE = r"[^\s`()]*candidate_[0-9a-f]+\.py(?::\d+)?"
_PLACE = re.compile(rf" \([^()]*{_CANDIDATE}[^()]*\)")
_FILE = re.compile(_CANDIDATE)


def _rename_candidates(report: CheckReport, name: str) -> CheckReport:
    """Returns the report on a reduced program, in which the name of the temporary file that was judged, and line
    numbers in it, are replaced by the name of the file that the user gets.

    name: the name of the file that the user gets, in which the lines have other numbers.
    """

    def rename(text: str) -> str:
        return _FILE.sub(name, _PLACE.sub("", text))

    def rename_in(finding: Finding) -> Finding:
        return replace(
            finding,
            message=rename(finding.message),
            help=rename(finding.help),
            evidence=tuple((label, rename(text)) for label, text in finding.evidence),
        )

    cases = tuple(
        replace(
            case,
            findings=tuple(map(rename_in, case.findings)),
            error=rename(case.error),
            log_tail=rename(case.log_tail),
        )
        for case in report.cases
    )
    return replace(report, cases=cases)
