"""Replays programs on numbers and with opaque functions, and prints how both agree with the verdicts and with each other.

`python -m tools.opaque_agreement cases/rope.py` takes cases, as `check` does; `--seeds 0 200` takes the random programs
of these seeds. It prints Markdown: a table of outputs by verdict and both numbers, the processor seconds of both
replays, and each output for which opaque functions contradict the verdict or the numbers.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ligerdiag import api
from ligerdiag.model.findings import Attribution, OutputNumbers, ReplayState
from ligerdiag.model.report import CaseReport
from ligerdiag.replay.replay_worker import Bounds
from tools.fuzz.drawing import draw_program
from tools.fuzz.source import render_case_file

_RIGHT = (Attribution.FRESH, Attribution.LOSSY)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("selectors", nargs="*")
    parser.add_argument("--seeds", nargs=2, type=int, metavar=("FIRST", "END"))
    parser.add_argument("--cache-dir", type=Path)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--refresh", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        selectors = list(options.selectors)
        if options.seeds:
            path = Path(folder) / "random_programs.py"
            programs = [draw_program(seed) for seed in range(*options.seeds)]
            path.write_text(render_case_file(programs, "Random programs."), encoding="utf-8")
            selectors.append(str(path))
        wanted = api.CheckOptions(
            selectors=tuple(selectors), cache_directory=options.cache_dir, jobs=options.jobs, opaque=True
        )
        if options.full:
            wanted = replace(wanted, bounds=Bounds(full=True), timeout=3600.0)
        report = api.check(replace(wanted, refresh=options.refresh))
    sys.stdout.write("\n".join(render(report.cases)) + "\n")
    return 0


def render(cases: Sequence[CaseReport]) -> Iterator[str]:
    """Yields the lines of the Markdown text on these cases."""
    outputs: Counter[tuple[str, str, str]] = Counter()
    states: Counter[tuple[str, str]] = Counter()
    notes: list[str] = []
    seconds = [0.0, 0.0]
    for case in cases:
        replay = case.replay
        if replay is None:
            states["no replay", "no replay"] += 1
            continue
        opaque = replay.opaque
        states[replay.state.value, "none" if opaque is None else opaque.state.value] += 1
        if opaque is None or opaque.state is not ReplayState.DONE:
            continue
        if replay.state is ReplayState.DONE and not replay.cut and not opaque.cut:
            seconds[0] += replay.seconds
            seconds[1] += opaque.seconds
        for name, verdict in case.outputs.items():
            real, other = replay.outputs.get(name), opaque.outputs[name]
            outputs[verdict.value, _name(real), other.attribution.value] += 1
            if (real is not None and _contradict(real, other)) or (
                not verdict.is_wrong and verdict.value != "unknown" and other.attribution.is_wrong
            ):
                numbers = f"error {other.error:.1e}, distance {other.distance:.1e}, tolerance {other.tolerance:.0e}"
                notes.append(
                    f"- `{case.id}`, `{name}`: {verdict.value}, replay {_name(real)}, opaque"
                    f" {other.attribution.value} ({numbers})"
                )
        notes += [f"- `{case.id}`: {one.message}" for one in case.disagreements]
    yield "| replay | with opaque functions | programs |"
    yield "|---|---|---|"
    yield from (f"| {real} | {other} | {count} |" for (real, other), count in sorted(states.items()))
    yield ""
    yield "| verdict | replay | with opaque functions | outputs |"
    yield "|---|---|---|---|"
    yield from (f"| {v} | {real} | {other} | {count} |" for (v, real, other), count in sorted(outputs.items()))
    yield ""
    yield f"Seconds of the replays that both did whole: {seconds[0]:.1f} and {seconds[1]:.1f}."
    yield from ("", *notes)


def _name(numbers: OutputNumbers | None) -> str:
    return "none" if numbers is None else numbers.attribution.value


def _contradict(real: OutputNumbers, other: OutputNumbers) -> bool:
    if Attribution.UNDECIDED in {real.attribution, other.attribution}:
        return False
    return (real.attribution in _RIGHT) != (other.attribution in _RIGHT)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
