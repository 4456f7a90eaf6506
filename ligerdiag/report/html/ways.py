"""The ways from the kernels to the outputs in words: outputs that are wrong in the same way are one group."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ligerdiag.report.html.output_chips import Chip
from ligerdiag.report.html.prose import Part, compute_parts
from ligerdiag.schedule_view import MissingEdge, OutputView, ScheduleView


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One output."""

    chip: Chip
    path: tuple[int, ...]
    """Ids of steps; empty where it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WayGroup:
    """Outputs of one verdict with the same sentence, but for their own name in it, and the same missing edges."""

    ways: tuple[Way, ...]
    sentence: tuple[Part, ...]
    """That of the first."""
    missing: tuple[MissingEdge, ...]


def compute_ways(view: ScheduleView, chips: Sequence[Chip], steps: Mapping[str, int]) -> tuple[WayGroup, ...]:
    """In the order of the chips; nothing where no way is known. steps: name of an instruction to the id of its step."""
    views = {output.name: output for output in view.outputs}
    if not any(o.sentence or o.path or o.missing for o in view.outputs):
        return ()
    groups: dict[tuple[object, ...], list[Chip]] = {}
    for chip in chips:
        output = views.get(chip.name)
        key = () if output is None else (_compute_rest(output), output.missing)
        groups.setdefault((chip.sign, chip.word, *key), []).append(chip)
    return tuple(_make(members, views, steps) for members in groups.values())


def _make(members: Sequence[Chip], views: Mapping[str, OutputView], steps: Mapping[str, int]) -> WayGroup:
    first = views.get(members[0].name)
    paths = {chip.name: views[chip.name].path if chip.name in views else () for chip in members}
    return WayGroup(
        ways=tuple(Way(chip=chip, path=paths[chip.name]) for chip in members),
        sentence=() if first is None else compute_parts(first.sentence, steps),
        missing=() if first is None else first.missing,
    )


def _compute_rest(output: OutputView) -> str:
    return output.sentence.replace(f"`{output.name}`", "``")
