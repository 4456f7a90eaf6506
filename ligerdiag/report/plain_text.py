"""A finding or a trouble as lines without layout, for formats that others lay out: annotations, alerts."""

from collections.abc import Iterable, Sequence

from ligerdiag.findings import Finding
from ligerdiag.report.finding_text import MAX_READS, MAX_STORES, limit_reads
from ligerdiag.report.folded_names import FEW
from ligerdiag.report.printable import compute_printable
from ligerdiag.report.source_text import compute_near, compute_place
from ligerdiag.report.troubles import PAGES, Trouble


def render_finding_plain(finding: Finding, places: Sequence[str]) -> tuple[str, ...]:
    """Returns the fact, the evidence, the remedy and where it was met, a printable line each."""
    evidence = [(label, compute_near(text)) for label, text in limit_reads(finding.evidence, MAX_READS)]
    stores = [("store", compute_place(place)) for place in (finding.call.stores if finding.call is not None else ())]
    few = [("outputs", ", ".join(finding.outputs))] if len(finding.outputs) <= FEW else []
    facts = [*stores[:MAX_STORES], *evidence, ("help", finding.help), *few]
    return _render(finding.message, (*facts, ("in", ", ".join(places))))


def render_trouble_plain(trouble: Trouble, places: Sequence[str]) -> tuple[str, ...]:
    """Returns the same of a trouble."""
    facts = [*trouble.evidence, ("help", PAGES[trouble.kind].help), ("outputs", ", ".join(trouble.outputs))]
    return _render(trouble.message, (*facts, ("in", ", ".join(places))))


def _render(message: str, facts: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    lines = (message, *(f"{label}: {text}" for label, text in facts if text))
    return tuple(compute_printable(line) for line in lines)
