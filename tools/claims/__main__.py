"""`python -m tools.claims SEED COUNT FOLDER…`; exit code 1 where a claim is contradicted, or `inspect` has a bug."""

import sys
from pathlib import Path

from ligerdiag.compile.cache import Cache
from tools.claims.pairs import load_pair
from tools.claims.tally import run


def main() -> int:
    """Runs the mutations and prints what became of them."""
    first, count, *folders = sys.argv[1:]
    pairs = [load_pair(Path(folder)) for folder in folders]
    tally = run(pairs, int(first), int(count), Cache(None).root / "effects")
    sys.stdout.write(tally.render() + "\n")
    return 1 if tally.contradictions or tally.tracebacks else 0


if __name__ == "__main__":
    sys.exit(main())
