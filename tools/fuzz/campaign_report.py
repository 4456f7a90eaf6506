"""Renders the summary of a campaign that `python -m tools.fuzz` prints."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tools.fuzz.judged_programs import CALLED_RIGHT, CALLED_WRONG, FuzzReport, find_outcomes
from tools.fuzz.programs import KINDS, find_kind


def render_fuzz_report(report: FuzzReport) -> str:
    """Returns the table of verdicts by numbers, every contradiction, and the processor time of a program."""
    outputs = report.count_outputs()
    numbers = list(dict.fromkeys(number for _, number in sorted(outputs)))
    lines = [f"{len(report.rows)} programs, {sum(outputs.values())} outputs: verdict by their numbers"]
    lines += [_render_row("", numbers)]
    for verdict in dict.fromkeys(verdict for verdict, _ in sorted(outputs)):
        lines.append(_render_row(verdict, [str(outputs[verdict, number]) for number in numbers]))
    lines += ["", *_render_ratios(outputs), *_render_kinds(report)]
    if seen := Counter(word for row in report.rows.values() for word in row.opaque.values()):
        lines += [
            f"with opaque functions {seen['wrong']} outputs are wrong and {seen['right']} right; {seen['alike']} do not show"
        ]
    contradictions = report.list_contradictions()
    lines += ["", f"{len(contradictions)} contradictions" + (":" if contradictions else "")]
    lines += [f"  seed {seed}: {words}" for seed, words in contradictions]
    lines += [f"  written: {path}" for path in report.files]
    if limits := report.count_excused():
        lines += [f"besides, {limits} around a loop that XLA unrolled"]
    if unjudged := report.list_unjudged():
        lines += ["", f"{len(unjudged)} without numbers:", *(f"  seed {seed}: {words}" for seed, words in unjudged)]
    if report.left_out:
        lines += ["", f"{report.left_out} programs left out: they need more GPUs than there are"]
    if report.faults:
        lines += ["", *report.faults, "the same command continues with the missing programs"]
    if report.judged:
        lines += [
            "",
            f"this run: {report.judged} programs, {report.seconds / report.judged:.1f} processor seconds each",
        ]
    return "\n".join(lines) + "\n"


def _render_ratios(outputs: Mapping[tuple[str, str], int]) -> Iterator[str]:
    """Yields a line on wrong outputs that are called right, and one on right outputs that are called wrong."""
    for words, called, phrase in (("wrong", CALLED_RIGHT, "called right"), ("right", CALLED_WRONG, "called wrong")):
        every = sum(count for (_, said), count in outputs.items() if said == words)
        found = sum(count for (verdict, said), count in outputs.items() if said == words and verdict in called)
        ratio = f" ({found / every:.1%})" if every else ""
        yield f"{found} of {every} {words} outputs are {phrase}{ratio}"


def _render_kinds(report: FuzzReport) -> Iterator[str]:
    """Yields a table of the programs with Refs by kind, if there are any."""
    counts: Counter[tuple[str, str]] = Counter()
    for seed, row in report.rows.items():
        kind = find_kind(seed)
        if kind is None:
            continue
        counts[kind, "programs"] += 1
        for (verdict, _), words in zip(row.outputs.values(), find_outcomes(row).values(), strict=True):
            counts[kind, words] += 1
            counts[kind, "missed"] += words == "wrong" and verdict in CALLED_RIGHT
            counts[kind, "false"] += words == "right" and verdict in CALLED_WRONG
    if counts:
        columns = ("programs", "wrong", "missed", "right", "false")
        yield ""
        yield _render_row("", columns)
        for kind in KINDS:
            yield _render_row(kind, [str(counts[kind, column]) for column in columns])


def _render_row(name: str, cells: Sequence[str]) -> str:
    return f"  {name:<16}" + "".join(f"{cell:>14}" for cell in cells)
