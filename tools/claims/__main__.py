"""Runs mutations: `python -m tools.claims --count 10000 --seed S`.

The exit code is 1 if a claim is contradicted, or if ligerdiag has a bug.
"""

import argparse
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

from tools.claims.driver import Totals, run
from tools.claims.seeds import NAMES, make_seeds, open_kinds

_SECONDS_BETWEEN = 5.0


def main() -> int:
    """Runs the mutations and prints their outcomes."""
    options = _parse_options()
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell has its background processes ignore Ctrl-C
        signal.signal(number, signal.default_int_handler)
    last, told = 0.0, 0

    def show_totals(totals: Totals) -> None:
        nonlocal last, told
        found = totals.list_faults()
        for line in found[told:]:
            sys.stderr.write(f"{line}\n")
        told = len(found)
        if monotonic() - last > _SECONDS_BETWEEN:
            last = monotonic()
            counts = totals.render_counts()
            sys.stderr.write(f"{totals.done.total()} of {options.count}, next seed {totals.next_seed}: {counts}\n")

    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        seeds = options.seeds or Path(scratch) / "seeds"
        make_seeds(seeds)
        kinds = open_kinds(seeds, Path(scratch), stack, options.kinds.split(","))
        totals = run(kinds, options.seed, options.count, show_totals)
    sys.stdout.write(totals.render() + "\n")
    left = options.seed + options.count - totals.next_seed
    if left:
        sys.stdout.write(f"ended early, to continue: --seed {totals.next_seed} --count {left}\n")
    return 0 if totals.is_good and not left else 1


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.claims", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="how many mutations")
    parser.add_argument("--seed", type=int, default=0, help="number of the first one")
    parser.add_argument("--kinds", default=",".join(NAMES), help="kinds of input, separated by commas")
    parser.add_argument("--seeds", type=Path, help="folder that keeps the compiled inputs for the next run")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
