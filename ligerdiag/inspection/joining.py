"""Joins what the analysis says of one schedule for several programs: those that a dump's HLO text may stand for.

What they agree on stands. An output or a read on which they differ is unknown, and a finding that one lacks is left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ligerdiag.analysis.verdict.comparison import join_outputs, join_read
from ligerdiag.model.findings import Finding, Verdict
from ligerdiag.model.report import Inspection
from ligerdiag.model.schedule_view import AccessKind, BufferAccess, OutputView, ScheduleView

UNKNOWN_ORDER = (
    "HLO text of the module before optimizations does not say in which order the author wrote what no operand orders:"
    " dump it with --xla_dump_hlo_as_proto"
)
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

    def settle(access: BufferAccess) -> BufferAccess:
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


def _key(access: BufferAccess) -> tuple[int, int, AccessKind]:
    return access.buffer, access.step, access.kind


def _settle_output(output: OutputView, is_differing: bool) -> OutputView:
    if not is_differing:
        return output
    sentence = (
        f"`{output.name}` could not be decided: it is right or wrong by the order in which the author wrote the program,"
        " which is not known"
    )
    return replace(output, verdict=Verdict.UNKNOWN, missing=(), sentence=sentence)


def join_inspections(inspections: list[Inspection]) -> Inspection:
    """What all say of one compilation: verdicts as `comparison` joins them; a finding that one lacks is left out."""
    first, *others = inspections
    outputs = join_outputs([one.outputs for one in inspections])
    if not others or (outputs == first.outputs and all(_keys(o) == _keys(first) for o in others)):
        return first if first.view is None else replace(first, view=_join_views(inspections, outputs))
    missed = dict.fromkeys((*(line for i in inspections for line in i.coverage.not_covered), UNKNOWN_ORDER))
    return replace(
        first,
        outputs=outputs,
        failures=tuple(dict.fromkeys(failure for i in inspections for failure in i.failures)),
        findings=tuple(f for f in first.findings if all(_compute_key(f) in _keys(other) for other in others)),
        coverage=replace(first.coverage, not_covered=tuple(missed)),
        view=_join_views(inspections, outputs),
    )


def _join_views(inspections: list[Inspection], outputs: Mapping[str, Verdict]) -> ScheduleView | None:
    return join_views([one.view for one in inspections if one.view is not None], outputs)


def _keys(inspection: Inspection) -> frozenset[tuple[object, ...]]:
    return frozenset(_compute_key(finding) for finding in inspection.findings)


def _compute_key(finding: Finding) -> tuple[object, ...]:
    return (finding.rule, finding.message, finding.outputs, finding.instructions)
