"""Checks that case files compile to the same bytes in any order: `python -m tools.shuffle_orders [FILES] --orders 200`.

Each order is a random sequence of the files with a random number of workers, cold or on a cache that another order has
filled in part. Every file of every artifact has to be the same as in the first order, except for the measured seconds.
Prints a line for each order; exits with 1 after the first that differs, and says how.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from ligerdiag.compile.artifacts import MANIFEST, PROVENANCE, Artifact
from ligerdiag.compile.cache import Cache
from ligerdiag.compile.pool import Pool
from ligerdiag.compile.service import compile_cases, discover_cases
from ligerdiag.compile.target import load_target

MOST_WORKERS = 3

type Digests = Mapping[str, str]
"""`case/file` to the sha256 of what does not depend on the clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One way to compile the files."""

    files: tuple[str, ...]
    jobs: int
    warm: int
    """Number of files, from the front, that an earlier run has compiled."""

    def __str__(self) -> str:
        names = " ".join(Path(file).stem for file in self.files)
        return f"-j {self.jobs}, {self.warm} warm: {names}"


def draw_order(files: Sequence[str], random_numbers: random.Random) -> Order:
    """Returns a random order."""
    shuffled = list(files)
    random_numbers.shuffle(shuffled)
    warm = random_numbers.choice((0, 0, random_numbers.randrange(len(files) + 1)))
    return Order(files=tuple(shuffled), jobs=random_numbers.randint(1, MOST_WORKERS), warm=warm)


def compile_in_order(order: Order, target: str, cache: Path) -> Digests:
    """Returns the digests of all artifacts, made in that order in the empty folder `cache`."""
    warmed = list(order.files[: order.warm])
    random.Random(str(order)).shuffle(warmed)
    if warmed:
        _compile(warmed, order.jobs, target, cache)
    return _compile(order.files, order.jobs, target, cache)


def _compile(files: Sequence[str], jobs: int, target: str, cache: Path) -> Digests:
    digests: dict[str, str] = {}
    with Pool(cache=Cache(cache), jobs=jobs) as pool:
        cases = discover_cases(files, pool=pool)
        for result in compile_cases(cases, [load_target(target)], pool=pool):
            name = f"{Path(str(result.case.source)).stem}:{result.case.id}"
            if result.artifact is None:
                digests[name] = f"error: {result.error}"
            else:
                digests |= {f"{name}/{file}": digest for file, digest in compute_digests(result.artifact).items()}
    return digests


def compute_digests(artifact: Artifact) -> Digests:
    """Of each file but the manifest, which has the same sums of the files as they are."""
    digests: dict[str, str] = {}
    for path in sorted(artifact.directory.rglob("*")):
        if path.is_file() and path.name != MANIFEST:
            data = path.read_bytes()
            if path.name == PROVENANCE:
                fields = {name: value for name, value in json.loads(data).items() if not name.endswith("_seconds")}
                data = json.dumps(fields, sort_keys=True).encode()
            digests[path.relative_to(artifact.directory).as_posix()] = sha256(data).hexdigest()
    return digests


def find_difference(expected: Digests, found: Digests) -> tuple[str, ...]:
    """Returns the differences between the two."""
    return tuple(sorted(name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)))


def main() -> int:
    """Compares random orders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="case files; by default all of cases/")
    parser.add_argument("--orders", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", default="h100")
    parser.add_argument("--keep", type=Path, help="folder for the caches of two orders that differ")
    options = parser.parse_args()
    files = options.files or sorted(str(path) for path in Path("cases").glob("*.py") if path.name != "__init__.py")
    numbers = random.Random(options.seed)
    expected: Digests = {}
    for count in range(options.orders):
        order = draw_order(files, numbers)
        with tempfile.TemporaryDirectory(prefix="ligerdiag-orders-") as folder:
            found = compile_in_order(order, options.target, Path(folder))
            expected = expected or found
            different = find_difference(expected, found)
            sys.stdout.write(f"{count + 1}/{options.orders} {'differs' if different else 'same'}, {order}\n")
            sys.stdout.flush()
            if options.keep is not None and (different or count == 0):
                shutil.copytree(folder, options.keep / f"order-{count + 1}", symlinks=True)
        if different:
            sys.stdout.write("\n".join(different) + "\n")
            return 1
    sys.stdout.write(
        f"{options.orders} orders of {len(files)} files: {len(expected)} files of artifacts, all the same\n"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
