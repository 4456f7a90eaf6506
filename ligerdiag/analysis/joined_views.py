"""One view of a compilation that several programs may stand for: what they do not agree in is unknown."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ligerdiag.analysis.verdict.combination import join_read
from ligerdiag.findings import Verdict
from ligerdiag.schedule_view import Access, AccessKind, OutputView, ScheduleView

_UNKNOWN = "in which order the author wrote what no operand orders is not known: where that matters, reads are unknown"


def join_views(views: Sequence[ScheduleView], outputs: Mapping[str, Verdict]) -> ScheduleView | None:
    """The first view, with what `outputs` and the other views say otherwise as unknown; None where there is none.

    outputs: output name to the verdict that all agree in. All views are of one schedule; what they show of it may differ.
    """
    if not views:
        return None
    first, *others = views
    if not others:
        return first
    differing = {one.name for one in first.outputs if outputs.get(one.name) is not one.verdict}
    known = [{_key(access): access for access in view.accesses} for view in others]
    is_same = all(view.buffers == first.buffers for view in others)

    def settle(access: Access) -> Access:
        if access.kind is not AccessKind.READ:
            return access
        found = [one.get(_key(access)) if is_same else None for one in known]
        others = [other.read if other is not None else None for other in found]
        reaches_unknown = not differing.isdisjoint(access.outputs)
        return replace(access, read=join_read(access.read, others, reaches_unknown=reaches_unknown))

    accesses = tuple([settle(access) for access in first.accesses])
    if accesses == first.accesses and not differing:
        return first
    return replace(
        first,
        accesses=accesses,
        outputs=tuple([_settle_output(one, one.name in differing) for one in first.outputs]),
        notes=(*first.notes, _UNKNOWN),
    )


def _key(access: Access) -> tuple[int, int, AccessKind]:
    return access.buffer, access.step, access.kind


def _settle_output(output: OutputView, is_differing: bool) -> OutputView:
    if not is_differing:
        return output
    sentence = (
        f"`{output.name}` could not be decided: it is right or wrong by the order in which the author wrote the program,"
        " which is not known"
    )
    return replace(output, verdict=Verdict.UNKNOWN, missing=(), sentence=sentence)
