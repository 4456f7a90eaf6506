"""Steps of a compile, told as steps of the run."""

from typing import TYPE_CHECKING

from ligerdiag.report.model import Progress

if TYPE_CHECKING:
    from ligerdiag.compile.service import CompileEvent


def make_progress(event: "CompileEvent", *, best: str = "") -> Progress:
    """Returns the same step, with what a search knows so far."""
    return Progress(
        phase=event.phase,
        event=event.event,
        done=event.done,
        total=event.total,
        case_id=event.case_id,
        target=event.target,
        cached=event.cached,
        best=best,
    )


def make_toolchain_step(step: str) -> Progress:
    """Returns the progress of a step of making a toolchain's environment."""
    return Progress(phase="toolchain", event="started", done=0, total=1, case_id=step)
