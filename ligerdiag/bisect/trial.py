"""One way to compile a case, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ligerdiag.compile.artifacts import Artifact
from ligerdiag.compile.job import CaseSpec
from ligerdiag.compile.target import Target
from ligerdiag.compile.toolchain_table import DEFAULT
from ligerdiag.compile.variation import Variation
from ligerdiag.findings import VERDICT_ORDER, Finding, Verdict
from ligerdiag.inspection import WrittenOperand
from ligerdiag.report.model import Coverage

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
    """The outcome of a trial."""

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
