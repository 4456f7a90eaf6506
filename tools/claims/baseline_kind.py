"""Damages baselines, which `check --baseline` reads.

A damaged baseline is refused in one line, or compared with, and hides no finding.
"""

from collections.abc import Sequence
from pathlib import Path
from random import Random

from ligerdiag import api
from ligerdiag.api.checking import find_recorded, list_baseline_notes, render_record
from ligerdiag.artifacts.artifact import load_artifact
from ligerdiag.cli.exit_codes import ExitCode
from ligerdiag.errors import InputError
from ligerdiag.inspection.compilation import inspect_artifact
from ligerdiag.model.findings import Finding
from ligerdiag.model.report import CaseReport, CheckReport, Identity, Judged
from ligerdiag.report.baseline import load_baseline
from ligerdiag.report.json import render_json
from ligerdiag.report.terminal.full_report import render_terminal
from ligerdiag.rules.schedules.ld015_schedule_drift import RULE as DRIFT
from tools.claims.json_damage import damage, damage_text
from tools.claims.trial import Outcome, Trial, find_invalid

_TOOLCHAIN = "default"


class BaselineKind:
    """Mutates a file that `check --record` wrote."""

    name = "baselines"

    def __init__(self, baseline: Path, artifacts: Sequence[Path], effects_cache: Path, scratch: Path) -> None:
        self._text = baseline.read_text()
        self._path = scratch / "baseline.json"
        self._judged = [_inspect(folder, effects_cache) for folder in artifacts]

    def run(self, random: Random) -> Trial:
        """Runs one mutation of the file, and a check with it."""
        apply = random.choices((damage, damage_text), (8, 2))[0]
        self._path.write_text(apply(self._text, random), errors="surrogatepass")
        judged = random.choice(self._judged)
        options = api.CheckOptions(
            selectors=(judged.identity.id,), toolchain=_TOOLCHAIN, baseline=self._path, record=True
        )
        try:
            baseline = load_baseline(self._path)
            recorded_before = load_baseline(self._path).entries
        except InputError as error:
            wrong = () if error.exit_code == ExitCode.INPUT and "\n" not in str(error) else (f"refused by {error!r}",)
            return Trial(words=apply.__name__, outcome=Outcome.REFUSED, contradictions=wrong)
        plain = api.conclude(judged)
        recorded = find_recorded(baseline, judged.identity, _TOOLCHAIN)
        case = api.conclude(judged, recorded=recorded)
        notes = tuple(list_baseline_notes(baseline, self._path, [case], options, {"jax": "0"}))
        whole = CheckReport(cases=(case,), targets=(case.target,), toolchain=_TOOLCHAIN, notes=notes)
        render_terminal(whole, width=100, colour=True, verbose=True)
        self._path.write_text(render_record(whole, options, self._path), encoding="ascii")
        again = load_baseline(self._path)
        hidden = [one.message for one in _list_own(plain) if one not in _list_own(case)]
        changed = () if case.outputs == plain.outputs else ("the verdicts are others",)
        lost = [key.case for key in recorded_before if key not in again.entries]
        drifted = any(one.rule == DRIFT.id for one in case.findings)
        return Trial(
            words=apply.__name__,
            outcome=Outcome.OTHER if drifted or recorded is None else Outcome.AS_BEFORE,
            contradictions=(
                *(f"hidden: {one}" for one in hidden),
                *changed,
                *(f"not recorded again: {one}" for one in lost),
            ),
            invalid=find_invalid(render_json(whole)),
            tracebacks=tuple(failure.message for failure in case.failures),
        )

    def close(self) -> None:
        """Does nothing: there is nothing to close."""


def _list_own(case: CaseReport) -> list[Finding]:
    """Returns the findings that do not concern the baseline and are not excused."""
    return [one for one in case.findings if one.rule != DRIFT.id and one.suppressed is None]


def _inspect(folder: Path, effects_cache: Path) -> Judged:
    artifact = load_artifact(folder)
    made = artifact.provenance
    inspection = inspect_artifact(artifact, effects_cache=effects_cache, neighbourhoods=True)
    identity = Identity(id=made.case_id, target=made.target, toolchain=_TOOLCHAIN)
    return Judged(identity=identity, result=inspection, seconds=0.5)
