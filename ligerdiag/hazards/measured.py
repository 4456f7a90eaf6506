"""What the rules look at once there are numbers: the static verdicts and findings beside what replay and device saw."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ligerdiag.findings import Finding, Verdict
from ligerdiag.neighbourhood import ScheduleFacts
from ligerdiag.outcomes import DeviceRun, Replay, ReplayState


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Input of every rule's `measure`."""

    outputs: Mapping[str, Verdict]
    """Output name to static verdict, in the program's order."""
    findings: tuple[Finding, ...]
    """The static findings of every rule."""
    replay: Replay | None
    device: DeviceRun | None
    facts: ScheduleFacts | None = None
    """The schedule without names, complete where there is a baseline."""
    recorded: ScheduleFacts | None = None
    """What the baseline has in its place; None without one."""

    @property
    def numbers(self) -> Replay | None:
        """The replay, if it was done."""
        return self.replay if self.replay is not None and self.replay.state is ReplayState.DONE else None

    def findings_of(self, rule: str) -> Iterator[Finding]:
        """The static findings of one rule."""
        return (finding for finding in self.findings if finding.rule == rule)


def render_error(error: float) -> str:
    """A relative error, such as `2.5e-01`."""
    return f"{error:.1e}"
