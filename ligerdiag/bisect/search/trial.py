"""Options of `bisect`; a trial, one way to compile a case and what came of it; a mutable builder: a partial result
survives Ctrl-C.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.effects.declared import DeclaredEffects
from ligerdiag.judgement.answers import Axis, Bisection, BisectionRow
from ligerdiag.model.findings import VERDICT_ORDER, Finding, Verdict
from ligerdiag.model.jobs import CaseSpec, Variation
from ligerdiag.model.report import Coverage, WrittenOperand
from ligerdiag.replay.replay_worker import Bounds
from ligerdiag.toolchains.gpu_targets import Target
from ligerdiag.toolchains.toolchain_table import DEFAULT

LIMIT = 200
"""Trials of one search, by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectOptions:
    """Options of `bisect`: the case, the axis, and how to search."""

    selectors: tuple[str, ...]
    """Ids, globs, files, `module:name`; each case is bisected by itself."""
    axis: Axis
    targets: tuple[str, ...] = ("h100",)
    """Names of targets, or paths of target descriptions; each is searched by itself, but for `targets`, which compares
    them (and takes all there are for ())."""
    toolchain: str = DEFAULT
    """Compile with that one; see `list_toolchains`."""
    toolchains: tuple[str, ...] = ()
    """The toolchains to go through, in that order; () means all of the table, oldest first, and the default one."""
    create: bool = False
    """Make the environments that are missing; each takes some GB."""
    replay: bool = True
    """Replay what fits the bounds."""
    bounds: Bounds = field(default_factory=Bounds)
    device: bool = False
    """Also run on the GPUs of this machine, on axes that use them."""
    limit: int = LIMIT
    """Trials of one search, at most."""
    jobs: int | None = None
    """Compile and replay workers; None means one a core."""
    timeout: float = 300.0
    """Seconds that one trial may take to compile, and again to replay."""
    cache_directory: Path | None = None
    """None means LIGERDIAG_CACHE_DIR, else the user's cache directory."""
    effects: tuple[DeclaredEffects, ...] = ()
    """The declared effects of operands whose effects are unknown."""


@dataclass(slots=True, kw_only=True)
class Draft:
    """The findings of an axis so far; the axis appends to the lists and calls `finish`."""

    case_id: str
    target: str
    toolchain: str
    axis: Axis
    columns: tuple[str, ...] = ()
    rows: list[BisectionRow] = field(default_factory=list[BisectionRow])
    answers: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    is_unsettled: bool = False
    trials_before: int = 0
    """Number of trials that the laboratory had made before this one began, for other cases or targets."""
    compiled_before: int = 0
    started: float = field(default_factory=perf_counter)

    def finish(self, *, trials: int, compiled: int, interrupted: bool = False) -> Bisection:
        """Returns the bisection as far as it is known. trials, compiled: see `Laboratory`."""
        return Bisection(
            case_id=self.case_id,
            target=self.target,
            toolchain=self.toolchain,
            axis=self.axis,
            columns=self.columns,
            rows=tuple(self.rows),
            answers=tuple(self.answers),
            notes=tuple(self.notes),
            trials=trials - self.trials_before,
            compiled=compiled - self.compiled_before,
            seconds=perf_counter() - self.started,
            interrupted=interrupted,
            is_unsettled=self.is_unsettled,
        )


type TrialKey = tuple[object, ...]

_WORDS: Mapping[Verdict, str] = {
    Verdict.FRESH: "right",
    Verdict.LATENT: "latent",
    Verdict.UNKNOWN: "unknown",
    Verdict.CLOBBERED: "wrong",
    Verdict.STALE: "wrong",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One way to compile a case."""

    case: CaseSpec
    target: Target
    toolchain: str = DEFAULT
    variation: Variation = field(default_factory=Variation)

    @property
    def key(self) -> TrialKey:
        """Equal for two trials that compile the same."""
        flags = tuple(sorted((name, repr(value)) for name, value in self.variation.flags.items()))
        ties = tuple(sorted(set(self.variation.ties)))
        return self.case.source, self.case.id, self.target.name, self.target.sha256, self.toolchain, flags, ties


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    trial: Trial
    outputs: Mapping[str, Verdict] = field(default_factory=dict[str, Verdict])
    """Output name to verdict, in the program's order; empty when there is an error."""
    findings: tuple[Finding, ...] = ()
    coverage: Coverage | None = None
    written: tuple[WrittenOperand, ...] = ()
    """The operands that kernels overwrite without XLA's knowledge."""
    meant: Mapping[str, int] = field(default_factory=dict[str, int])
    """Output name to what it is to depend on; see `Inspection.meant`."""
    artifact: Artifact | None = None
    error: str = ""
    """One line, when it could not be compiled or judged."""
    exit_code: int = 0
    """The exit code for the error (2 input, 3 could not analyse)."""
    cached: bool = False
    """The artifact came from the cache."""
    seconds: float = 0.0
    """Wall time of compiling, 0 when cached, and judging."""

    @property
    def is_right(self) -> bool:
        """Every output is fresh: nothing is left to luck, and nothing is unknown."""
        return self.word == "right"

    def wants(self, meant: Mapping[str, int]) -> bool:
        """Returns whether every output still depends on everything that it depends on in `meant`; it may depend on
        more."""
        return not any(wanted & ~self.meant.get(name, 0) for name, wanted in meant.items())

    @property
    def word(self) -> str:
        """That of its worst output: `right`, `latent`, `unknown` or `wrong`; `unknown` where there is none."""
        if self.error or not self.outputs:
            return "unknown"
        return _WORDS[max(self.outputs.values(), key=VERDICT_ORDER.index)]
