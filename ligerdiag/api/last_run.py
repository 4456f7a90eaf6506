"""Stores which cases of a folder were not as expected, and selects these cases in a later run (`check --last-failed`).

The cache has one record for each folder in which `check` runs: `<cache>/runs/<sha256 of the folder>.json`. It lists the
cases that were not as expected, and those that a run selected and did not run to their end. A run changes only the entries
of its own cases; entries of other cases stay in the record. A record that is missing, too large or malformed counts as no
record.
"""

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ligerdiag.artifacts.cache import RUNS, Cache
from ligerdiag.artifacts.scratch_folders import replace_file
from ligerdiag.codec import FieldError, decode_record, encode_record, parse_object
from ligerdiag.compile.cases.selectors import Selector, parse_selectors
from ligerdiag.errors import ArtifactError
from ligerdiag.model.jobs import CaseSpec, Source
from ligerdiag.model.report import CaseReport
from ligerdiag.text import count_of, list_first
from ligerdiag.untrusted_files import read_untrusted

MAXIMUM_RECORD_BYTES = 16 << 20
"""Largest record that is read; each case takes a few hundred bytes."""
_FORMAT = 1
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPolicy:
    """How a run chooses among the selected cases, such as only those that failed before, and when it stops."""

    fails: Callable[[CaseReport], bool]
    """Returns whether a case is not as expected."""
    exit_first: bool = False
    """Whether the run stops at the first case that is not as expected."""
    last_failed: bool = False
    """Whether the run takes only the cases that were not as expected, or not run, when they were last selected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCase:
    """A case on one target that was not as expected in its last run, or that this run did not complete."""

    source: Source
    id: str
    """Id of the case; empty for a file whose cases could not be read."""
    target: str
    toolchain: str
    was_run: bool
    """Whether the case was run to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """The record of the last runs in one folder: the cases that were not as expected or not completed."""

    format: int
    folder: str
    """Absolute path of the folder."""
    cases: tuple[OpenCase, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LastSelection:
    """The cases that `--last-failed` selects."""

    cases: tuple[CaseSpec, ...]
    said: str
    """One line that says which cases were selected, and why."""


def load_last_run(cache: Cache, folder: Path) -> LastRun | None:
    """Returns the record of the earlier runs in this folder, or None if there is no record that can be read."""
    try:
        fields = parse_object(read_untrusted(_locate(cache, folder), MAXIMUM_RECORD_BYTES, follow=False))
        found = decode_record(LastRun, fields)
    except (ArtifactError, FieldError, RecursionError):
        return None
    return found if found.format == _FORMAT and found.folder == str(folder) else None


def save_last_run(cache: Cache, last: LastRun) -> None:
    """Writes the record of a folder. Errors are ignored: without the record, the next run checks all cases."""
    path = _locate(cache, Path(last.folder))
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        replace_file(path, (json.dumps(encode_record(last), indent=1) + "\n").encode())


def select_open_cases(
    cases: Sequence[CaseSpec], last: LastRun | None, *, targets: Collection[str], toolchain: str
) -> LastSelection:
    """Returns the cases that the record lists for one of the targets, or all cases if it lists none of them.

    Cases that were not as expected come first, then cases that were not run.
    """

    def keep_all(why: str) -> LastSelection:
        said = f"--last-failed: {why}, so {_describe_all(cases)}"
        return LastSelection(cases=tuple(cases), said=said)

    if last is None:
        return keep_all("no earlier run in this folder is recorded")
    known = [one for one in last.cases if one.target in targets and one.toolchain == toolchain]
    failed = [case for case in cases if any(one.was_run and _is_of(one, case) for one in known)]
    undone = [case for case in cases if case not in failed and any(_is_of(one, case) for one in known)]
    chosen = (*failed, *undone)
    if not last.cases:
        return keep_all("every case of the last run was as expected")
    if not chosen:
        return keep_all(f"none of the {count_of(len(last.cases), 'remembered case')} is among those selected")
    words = [
        *([f"{len(failed)} not as expected when last run"] if failed else []),
        *([f"{len(undone)} not run when last selected"] if undone else []),
    ]
    names = list_first([f"`{case.id}`" for case in chosen], _SHOWN)
    said = f"--last-failed: {len(chosen)} of {count_of(len(cases), 'case')}, {' and '.join(words)}: {names}"
    return LastSelection(cases=chosen, said=said)


def _describe_all(cases: Sequence[CaseSpec]) -> str:
    return "the selected case runs" if len(cases) == 1 else f"all {len(cases)} selected cases run"


def _is_of(one: OpenCase, case: CaseSpec) -> bool:
    return one.source == case.source and one.id in ("", case.id)


def remember_run(
    last: LastRun | None,
    folder: Path,
    reports: Iterable[tuple[Source, CaseReport]],
    *,
    fails: Callable[[CaseReport], bool],
    undone: Collection[tuple[Source, str, str]],
    found: Collection[tuple[Source, str]],
    selectors: Sequence[Selector],
) -> LastRun:
    """Returns the folder's record after a run.

    It has new entries for the cases of this run, and the earlier entries of all cases that are not in this run.

    fails: returns whether a case is not as expected. undone: source, case and target of each report that lacks a step
    that the user asked for, because the run was ended. found: the cases that the selectors select, whether the run took
    them or not. selectors: the selectors of the run. If they select a whole file, earlier entries for cases that the file
    no longer has are dropped.
    """
    done: list[OpenCase] = []
    keys: set[tuple[Source, str, str, str]] = set()
    broken: set[Source] = set()
    for source, report in reports:
        case_id = report.id if (source, report.id) in found else ""
        keys.add((source, case_id, report.target, report.toolchain))
        broken |= set() if case_id else {source}
        is_complete = (source, report.id, report.target) not in undone
        if fails(report) or not is_complete:
            done.append(
                OpenCase(
                    source=source,
                    id=case_id,
                    target=report.target,
                    toolchain=report.toolchain,
                    was_run=is_complete or fails(report),
                )
            )
    read = {source for source, _ in found}
    whole = {source for one in parse_selectors(selectors, folder) if one.pattern == "*" for source in one.sources}

    def is_kept(one: OpenCase) -> bool:
        if (one.source, one.id, one.target, one.toolchain) in keys:
            return False
        if one.source.file and not Path(one.source.file).exists():
            return False
        if not one.id:
            return one.source not in read
        return one.source in broken or one.source not in whole or (one.source, one.id) in found

    kept = [one for one in (last.cases if last is not None else ()) if is_kept(one)]
    return LastRun(format=_FORMAT, folder=str(folder), cases=(*done, *kept))


def _locate(cache: Cache, folder: Path) -> Path:
    return cache.root / RUNS / f"{sha256(str(folder).encode()).hexdigest()}.json"
