"""Judges every case with less than a full artifact: `python tools/measure_reductions.py [SELECTOR…]`.

Compiles each case with and without tags, and prints a line for each form of `reductions.FORMS`. The exit code is 1 if
an output contradicts that of the full artifact. `-v` lists the outputs that are not equal.
"""

import os
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import compile_cases, discover_cases
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.workers.pool import Pool
from tools.reductions import FORMS, Change, Comparison, compare_forms

ROOT = Path(__file__).parents[1]
ROW = "{:<32}" + " {:>11}" * len(Change) + "\n"


def compile_all(selectors: list[str], *, tagged: bool) -> Mapping[str, Artifact]:
    """Returns the artifacts by case id, each compiled for an H100."""
    cache = Cache() if tagged else Cache(Cache().root / "untagged")
    worker = {} if tagged else {"module": "tools.untagged_worker", "environment": {"PYTHONPATH": str(ROOT)}}
    found: dict[str, Artifact] = {}
    with Pool(cache=cache, **worker) as pool:
        for result in compile_cases(discover_cases(selectors, pool=pool), [load_target("h100")], pool=pool):
            assert result.artifact is not None, result.error
            found[result.case.id] = result.artifact
    return found


def main(arguments: list[str]) -> int:
    """Prints the table; returns 1 if something contradicts."""
    selectors = [argument for argument in arguments if argument != "-v"] or [str(ROOT / "cases")]
    tagged, untagged = compile_all(selectors, tagged=True), compile_all(selectors, tagged=False)
    found: list[Comparison] = []
    for case, artifact in tagged.items():
        found += compare_forms(artifact, untagged[case], Cache().root / "effects")
    sys.stdout.write(ROW.format("", *Change))
    for form in FORMS:
        counts = Counter(change for one in found if one.form is form for change in one.changes.values())
        sys.stdout.write(ROW.format(form.name, *(counts[change] for change in Change)))
    wrong = [line for one in found for line in one.find(Change.CONTRADICTS)]
    sys.stdout.write("".join(f"contradicts: {line}\n" for line in wrong))
    if "-v" in arguments:
        rest = (change for change in Change if change not in (Change.EQUAL, Change.CONTRADICTS))
        for change in rest:
            for one in found:
                sys.stdout.write("".join(f"{one.form.name}: {change.value}: {line}\n" for line in one.find(change)))
    return 1 if wrong else 0


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(sys.argv[1:]))
