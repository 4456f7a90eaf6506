"""Records the result of `fix` on a case: the cures that were tried, and which of them are proved."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CaseReport

type Texts = Mapping[Path, bytes]
"""From the real path of a changed file to its new text."""


class Proof(StrEnum):
    """How certain it is that a changed program is right, for example `PROVED` or `NOT_COMPARED`."""

    PROVED = "proved"
    """Every output is fresh, the replay agrees, no new finding appeared, and the program computes the same as before."""
    LATENT = "right by luck"
    """As PROVED, except that nothing forces the order of the reads on which an output depends."""
    NOT_COMPARED = "not compared"
    """Every output is fresh, but the numbers do not show that the program computes the same as before."""
    OTHER_PROGRAM = "could not be proved"
    """The numbers show that the changed program computes something else than the program as written."""
    REFUTED = "does not help"
    NOT_APPLICABLE = "does not apply"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The additional memory and time that a cure costs on one target; sizes are bytes on one device."""

    reserved: int
    """Additional bytes of arguments, outputs and temporaries."""
    peak: int
    copied: int
    """Additional bytes that one call copies."""
    milliseconds: float | None
    """Estimated additional time: the copied bytes, read and written, at the bandwidth of the target's memory; None if that
    is unknown.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherCases:
    """The other cases that load the files which a cure changes. They are compiled and not replayed."""

    judged: tuple[str, ...] = ()
    """Ids of the cases that were judged with and without the change."""
    left: int = 0
    """Number of cases that were not judged."""
    worse: tuple[str, ...] = ()
    """One clause for each case that the change makes worse."""
    copied: Mapping[str, int] = field(default_factory=dict[str, int])
    """From the id of a case to the additional bytes that one call copies, of those that copy more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One trial of a cure, or of two cures together, on a case."""

    cure: str
    """Name of the cure; two names with ` + ` between them."""
    is_safe: bool
    proof: Proof
    reason: str = ""
    """A clause that says why the cure does not apply, does not help or is not proved; empty if it is proved."""
    refusal: str = ""
    """The part of `reason` that names the source line which the cure would have to change and cannot; empty if `reason`
    names no such line.
    """
    files: Mapping[Path, bytes] = field(default_factory=dict[Path, bytes])
    """The new text of each changed file."""
    originals: Mapping[Path, bytes] = field(default_factory=dict[Path, bytes])
    """The text of each changed file before the change."""
    diff: str = ""
    changed_lines: int = 0
    """Number of lines that the diff removes or adds."""
    verdicts: Mapping[str, Mapping[str, Verdict]] = field(default_factory=dict[str, Mapping[str, Verdict]])
    """Maps each target to its verdicts, and these map each output name to a verdict."""
    reports: tuple[CaseReport, ...] = ()
    """The reports on the changed case, one for each target; () if there are none."""
    costs: Mapping[str, Cost] = field(default_factory=dict[str, Cost])
    """Maps each target to the cost of the cure on this target."""
    is_compared: bool = False
    """Whether a replay shows that the changed program computes the same as before."""
    left: tuple[str, ...] = ()
    """Ids of the rules that still have findings after the change."""
    unproved_callers: tuple[str, ...] = ()
    """Callers that the cure changes and that the case does not run: nothing is proved of them."""
    remarks: tuple[str, ...] = ()
    """Sentences about the change that the reader of its diff needs, such as a caller that no longer sees a write."""
    changes_callers: bool = False
    """Whether changed functions return more values than before, so that their callers in the project are changed as well."""
    unseen: tuple[str, ...] = ()
    """Places that the cure does not change and that may call a function which returns more values than before."""
    also_changed: tuple[str, ...] = ()
    """Kernel calls that the cure changes although no finding of the case names them: nothing is proved of them."""
    not_changed: tuple[str, ...] = ()
    """Kernel calls that the cure does not change, and that may overwrite an array whose new contents a function now
    returns.
    """
    others: OtherCases = field(default_factory=OtherCases)
    """The other cases that load the changed files; they are judged only for a cure that would be offered."""
    next_step: str = ""
    """The change to make by hand, in addition to the diff, so that the cure may be proved; empty if it is unknown."""
    advice: str = ""
    """An action in addition to the diff, such as a shell command; empty if there is none."""

    @property
    def is_offered(self) -> bool:
        """Returns whether the cure is offered to the user, perhaps only with `--unsafe`."""
        return self.proof in (Proof.PROVED, Proof.LATENT, Proof.NOT_COMPARED)

    @property
    def needs_unsafe(self) -> bool:
        return not self.is_safe or self.proof is not Proof.PROVED


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFix:
    """The result of `fix` for one case."""

    case_id: str
    hazards: tuple[str, ...] = ()
    """One line for each finding that a cure should remove; empty if there is nothing to fix."""
    attempts: tuple[Attempt, ...] = ()
    best: Attempt | None = None
    """The attempt whose diff is offered; None if no attempt is good enough, or if there is nothing to fix."""
    remedies: tuple[str, ...] = ()
    """The help texts of the findings in `hazards`, each once. A help text says which change to make by hand if no cure is
    offered.
    """
    not_covered: tuple[str, ...] = ()
    """One line for each part of the unchanged case that the analysis does not cover, as in the report of `check`."""
    error: str = ""
    """The reason why the case could not be analysed; empty if it could."""
    exit_code: int = 0
    """Exit code for the error; 0 without an error."""
    verdicts: Mapping[str, Mapping[str, Verdict]] = field(default_factory=dict[str, Mapping[str, Verdict]])
    """The verdicts on the unchanged case: maps each target to its verdicts, which map each output name to a verdict."""
