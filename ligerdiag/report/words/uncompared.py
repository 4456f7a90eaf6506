"""Finds the reason why the outputs of a case were not compared with the case's reference."""

from math import isnan

from ligerdiag.model.findings import ReplayState
from ligerdiag.model.report import CaseReport, Status
from ligerdiag.text import join_words

NO_REPLAY = "--no-replay"


def explain_uncompared_reference(case: CaseReport) -> str:
    """Returns the reason why outputs were not compared with the case's reference, such as `--no-replay`.

    Empty if all outputs were compared, if the case has no reference, or if the case could not be analysed.
    """
    if not case.has_reference or case.status in (Status.ERROR, Status.NOT_CHECKED):
        return ""
    if case.device is not None and case.device.outputs and case.device.intended_from.startswith("reference"):
        return ""
    replay = case.replay
    if replay is None:
        return NO_REPLAY
    if replay.state is not ReplayState.DONE:
        return f"the replay is `{replay.state.value}`"
    if replay.cut:
        return "the replay cut a loop short"
    unclear = [f"`{name}`" for name, error in replay.reference.items() if isnan(error)]
    if not replay.reference:
        return "the replay compared no output with it"
    return f"no finite error of {join_words(unclear)}" if unclear else ""
