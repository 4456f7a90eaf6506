"""Judges the other cases that load a file which a cure changes, because a cure of one case may break another case.

These are the cases of the case's own file, and those of the run, if they load a changed file. They are compiled with and
without the change and judged by their verdicts, findings and copied bytes; nothing is replayed. A case is worse if it
cannot be analysed any more, has other outputs, an output with a worse verdict, or a finding of a rule that reported nothing
before.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

from ligerdiag.api.checking import check
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import discover_cases, find_artifact_dependencies, find_import_dependencies
from ligerdiag.errors import LigerdiagError
from ligerdiag.fix.cure_trials import is_about_luck, keep_patches, list_hazards, require_complete
from ligerdiag.fix.records import OtherCases, Texts
from ligerdiag.model.findings import Severity, Verdict
from ligerdiag.model.jobs import CaseSpec, Source
from ligerdiag.model.report import CaseReport, OnProgress, Status
from ligerdiag.run_options import CheckOptions
from ligerdiag.text import join_words
from ligerdiag.toolchains.environments import provide_toolchain
from ligerdiag.toolchains.gpu_targets import load_targets
from ligerdiag.toolchains.toolchain import Toolchain
from ligerdiag.workers.pool import Pool

_BADNESS = {Verdict.FRESH: 0, Verdict.LATENT: 1, Verdict.UNKNOWN: 2, Verdict.CLOBBERED: 3, Verdict.STALE: 3}

type _Key = tuple[str, str, str]
"""File, id and target of a case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherCasesJudge:
    """Judges the cases that load a file which a cure of one case changes."""

    case: CaseSpec
    selected: Sequence[CaseSpec]
    """The cases of the run."""
    options: CheckOptions
    most: int
    """Number of cases that are judged for each cure."""
    report_progress: OnProgress | None = None

    def judge(self, texts: Texts) -> OtherCases:
        """Returns which cases become worse if the files get the texts in `texts`."""
        if not self.most:
            return OtherCases()
        found = self._list_users(texts)
        chosen = choose_varied(found, self.case.name, self.most)
        if not chosen:
            return OtherCases(left=len(found))
        patches = keep_patches(Cache(self.options.cache_directory), texts)
        old = self._check(chosen)
        new = self._check([replace(one, source=replace(one.source, patches=patches)) for one in chosen])
        if isinstance(old, str):
            return OtherCases(left=len(found))
        broken = {key[:2] for key, one in old.items() if _is_broken(one)}
        judged = [one.id for one in chosen if (str(one.source), one.id) not in broken]
        worse: dict[str, None] = {}
        copied: dict[str, int] = {}
        for key, before in old.items():
            if isinstance(new, str):
                worse[f"`{key[1]}` could not be analysed: {new}"] = None
            elif reason := _find_worse(before, new.get(key)):
                worse[f"`{key[1]}` {reason}"] = None
            elif (more := _count_copied(before, new[key])) > 0:
                copied[key[1]] = max(more, copied.get(key[1], 0))
        return OtherCases(
            judged=tuple(judged),
            left=len(found) - len(judged),
            worse=tuple(worse),
            copied=copied,
        )

    def _list_users(self, texts: Texts) -> list[CaseSpec]:
        """Returns the other cases that load a file with a new text."""
        cache = Cache(self.options.cache_directory)
        toolchain = provide_toolchain(self.options.toolchain, cache, lambda _: None)
        changed = {str(one) for one in texts}
        specs: dict[tuple[Source, str], CaseSpec] = {}
        for one in (*self._list_own(cache, toolchain), *self.selected):
            is_own = one.source == self.case.source
            if is_own and one.id == self.case.id:
                continue
            if is_own or changed & self._list_files(one, cache, toolchain):
                specs.setdefault((one.source, one.id), one)
        return [*specs.values()]

    def _list_files(self, case: CaseSpec, cache: Cache, toolchain: Toolchain) -> set[str]:
        """Returns the files of the project that a case of the run reads, when it is imported and when it is traced."""
        (target, *_) = load_targets(self.options.targets)
        found = {
            **find_import_dependencies(cache, toolchain, case.source),
            **find_artifact_dependencies(
                case.source, case.id, target, cache=cache, toolchain=toolchain, environ=os.environ
            ),
        }
        return {str(Path(one).resolve()) for one in found}

    def _list_own(self, cache: Cache, toolchain: Toolchain) -> Sequence[CaseSpec]:
        """Returns all cases of the case's own file or module."""
        if self.case.source.pickled or self.case.source.stablehlo:
            return ()
        with Pool(cache=cache, toolchain=toolchain, jobs=1, timeout=self.options.timeout) as pool:
            return discover_cases((self.case.source,), pool=pool, on_broken=lambda source, error: None)

    def _check(self, specs: Sequence[CaseSpec]) -> dict[_Key, CaseReport] | str:
        """Returns the reports on cases; the error if none can be analysed."""
        options = replace(self.options, selectors=tuple(specs), replay=False, opaque=False, orders=0)
        try:
            report = check(options, self.report_progress)
        except LigerdiagError as error:
            return str(error).splitlines()[0]
        require_complete(report)
        return {(one.source, one.id, one.target): one for one in report.cases}


def choose_varied(cases: Sequence[CaseSpec], name: str, most: int) -> list[CaseSpec]:
    """Chooses at most `most` cases: alternately one of the cases named `name`, and one of the cases with other names.

    The other names take turns. Cases with one name stay in the order in which they are given.
    """
    groups: dict[str, list[CaseSpec]] = {name: []}
    for one in cases:
        groups.setdefault(one.name, []).append(one)
    own = groups.pop(name)
    rest = [one for row in zip_longest(*groups.values()) for one in row if one is not None]
    mixed = [one for row in zip_longest(own, rest) for one in row if one is not None]
    return mixed[:most]


def _find_worse(before: CaseReport, after: CaseReport | None) -> str:
    """Returns a clause that says what is worse in a changed case; empty if nothing is."""
    if _is_broken(before):
        return ""
    if after is None:
        return "is no case any more"
    if _is_broken(after):
        return f"could not be analysed: {(after.error or after.status.value).splitlines()[0]}"
    if after.outputs.keys() != before.outputs.keys():
        return "has other outputs"
    worse = [
        f"`{name}` {verdict.value}"
        for name, verdict in after.outputs.items()
        if _BADNESS[verdict] > _BADNESS[before.outputs[name]]
    ]
    if worse:
        return f"has {join_words(worse[:3])}"
    old = {one.rule for one in before.findings if one.severity is not Severity.NOTE}
    new = [one for one in list_hazards(after) if one.rule not in old and not is_about_luck(one, after)]
    return f"has {new[0].rule}: {new[0].message}" if new else ""


def _is_broken(report: CaseReport) -> bool:
    return report.status in (Status.ERROR, Status.NOT_CHECKED) or bool(report.error)


def _count_copied(before: CaseReport, after: CaseReport) -> int:
    """Returns the additional bytes that one call copies."""
    if before.memory is None or after.memory is None:
        return 0
    return after.memory.copied - before.memory.copied
