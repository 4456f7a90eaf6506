"""Checks random nestings around `call_in_place`: `python -m tools.nestings FIRST COUNT FOLDER`.

Each program is compiled, judged and replayed as by `ligerdiag check`, in the environment of this Python, and compared
with plain jnp. Prints each program that is wrong, has no numbers or is not called fresh, then the totals. The exit code
is 1 if a program is wrong or has no numbers.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

from tools.nestings.checking import has_refs, iterate_outcomes
from tools.nestings.drawing import draw_line


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args(arguments)
    refs, counts, worst, began = has_refs(), Counter[str](), 0.0, perf_counter()
    for one in iterate_outcomes(range(given.first, given.first + given.count), given.folder, refs=refs):
        worst = max(worst, one.error)
        kind = "no numbers" if one.fault else "wrong" if one.wrong else "right, not fresh" if one.alarms else "right"
        counts[kind] += 1
        counts["fresh and wrong"] += bool(one.false_fresh)
        if kind != "right":
            line = draw_line(int(one.name.rpartition("_")[2]), refs=refs)
            sys.stdout.write(f"{kind}: {one.fault[:600]} {one.wrong} {one.alarms}\n    {line}\n")
            sys.stdout.flush()
    figures = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
    seconds = perf_counter() - began
    release = version("jax-triton")
    sys.stdout.write(f"jax-triton {release}: {figures}; largest relative error {worst:.1e}; {seconds:.0f} s\n")
    return int(bool(counts["wrong"] or counts["no numbers"]))


if __name__ == "__main__":
    sys.exit(main())
