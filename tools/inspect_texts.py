"""Runs `inspect` on HLO texts of others: `python tools/inspect_texts.py LIST JOBS FOLDER...`; each `.hlo` in a folder
is one.

Each text is inspected as a file that a user names, including the reports. The tool prints each outcome with its number
of texts and an example, then the texts that took more than `SECONDS` of processor time or `MEMORY` of a process. These
texts, and bugs of ours, make the exit code 1. The file LIST gets one line for each text. Texts run in batches, each
batch in a process of its own.
"""

import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import batched
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from ligerdiag import api
from ligerdiag.api.inspecting import InspectedModules, select_modules
from ligerdiag.artifacts.cache import Cache
from ligerdiag.dumps.text_worker import Translator
from ligerdiag.errors import LigerdiagError
from ligerdiag.inspection.module_inspection import InspectionRequest, ModuleInspector
from ligerdiag.model.report import CheckReport, Noun
from ligerdiag.report.json import render_json
from ligerdiag.report.terminal.full_report import render_terminal
from tests.processor_time import read_processor_seconds, walk_processes

SECONDS = 2.0
MEMORY = 500
BATCH = 40
BUG = "bug: "
_OF_BUGS = ("which is a bug", "are inconsistent")
"""Parts of messages whose cause is an unintended exception."""


@dataclass
class Tally:
    """The outcomes of the texts."""

    endings: Counter[str] = field(default_factory=Counter[str])
    examples: dict[str, Path] = field(default_factory=dict[str, Path])
    """Outcome to the first text that had it."""
    costs: list[tuple[float, int, Path, str]] = field(default_factory=list[tuple[float, int, Path, str]])
    """For each text: processor seconds, MiB of the largest process so far, the text, and its outcome."""

    def count(self, ending: str, path: Path) -> None:
        self.endings[ending] += 1
        self.examples.setdefault(ending, path)

    def add(self, other: "Tally") -> None:
        self.endings += other.endings
        self.examples = other.examples | self.examples
        self.costs += other.costs


def inspect_text(path: Path, translator: Translator, cache: Cache) -> list[str]:
    """Returns the outcome of each module of the text."""
    inspected = InspectedModules(select_modules((path,)))
    inspector = ModuleInspector(
        request=InspectionRequest(), translate=translator.translate, effects_cache=cache.root / "effects"
    )
    for _ in inspected.run(inspector):
        pass
    cases = tuple(api.conclude(judged) for judged in inspected.judged)
    report = CheckReport(cases=cases, targets=("",), toolchain="", notes=inspected.list_notes(), noun=Noun.MODULE)
    render_terminal(report, width=100, colour=True, verbose=True)
    render_json(report)
    endings = ["no custom calls"] * inspected.idle
    for case in cases:
        verdicts = Counter(verdict.value for verdict in case.outputs.values())
        rules = " ".join(sorted({finding.rule for finding in case.findings}))
        reason = case.error.replace(str(path), "…").replace(path.name, "…") or f"{rules} {dict(verdicts)}"
        is_bug = any(words in reason for words in _OF_BUGS)
        endings.append(f"{BUG if is_bug else ''}{case.status.value}: {reason}"[:160])
    return endings


def run_batch(paths: Sequence[Path], cache: Path | None) -> Tally:
    """Inspects the texts in this process, with one more process for the parser."""
    tally = Tally()
    store = Cache(cache)
    with Translator(cache=store) as translator:
        for path in paths:
            before = read_processor_seconds()
            try:
                endings = inspect_text(path, translator, store)
            except LigerdiagError as error:
                endings = [f"input error: {error}"]
            except Exception as fault:
                endings = [f"{BUG}{type(fault).__name__}: {fault}"]
            for ending in endings:
                tally.count(ending, path)
            tally.costs.append((read_processor_seconds() - before, _read_peak(), path, " | ".join(endings)))
    return tally


def _read_peak() -> int:
    """Returns the peak MiB of this process, or of a process that it started and that still runs; the larger one."""
    return max(map(_read_high_water, walk_processes(os.getpid()))) >> 10


def _read_high_water(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    found = re.search(r"VmHWM:\s*(\d+) kB", status)
    return int(found[1]) if found else 0


def run(paths: Sequence[Path], jobs: int, cache: Path | None = None) -> Tally:
    """Inspects the texts; a batch whose process dies is a bug."""
    total = Tally()
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        batches = {tuple(batch): pool.submit(run_batch, batch, cache) for batch in batched(paths, BATCH)}
        for batch, future in batches.items():
            try:
                total.add(future.result())
            except Exception as fault:
                total.count(f"{BUG}{type(fault).__name__}: {fault}", batch[0])
    return total


def main() -> int:
    listing, jobs = Path(sys.argv[1]), int(sys.argv[2])
    paths = sorted(path for folder in sys.argv[3:] for path in Path(folder).rglob("*.hlo"))
    tally = run(paths, jobs)
    lines = [f"{seconds:.2f}\t{memory}\t{path}\t{ending}\n" for seconds, memory, path, ending in tally.costs]
    listing.write_text("".join(lines), encoding="utf-8")
    bugs = sum(count for ending, count in tally.endings.items() if ending.startswith(BUG))
    dear = [line for line, cost in zip(lines, tally.costs, strict=True) if cost[0] > SECONDS or cost[1] > MEMORY]
    for ending, count in tally.endings.most_common():
        sys.stdout.write(f"{count:6} {ending}\n       {tally.examples[ending]}\n")
    slowest, largest = (max((cost[index] for cost in tally.costs), default=0) for index in (0, 1))
    sys.stdout.write(
        f"{len(tally.costs)} of {len(paths)} texts, slowest {slowest:.2f} s, largest process {largest} MiB\n"
        f"more than {SECONDS} s or {MEMORY} MiB:\n{''.join(dear)}{bugs} bugs\n"
    )
    return 1 if bugs or dear or len(tally.costs) < len(paths) else 0


if __name__ == "__main__":
    sys.exit(main())
