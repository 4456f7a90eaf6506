"""Checks that case files compile to the same bytes in any order: `python -m tools.shuffle_orders [FILES] --orders 200`.

The expected result is every file compiled alone, by a worker of its own on an empty cache, as soon as an order needs
it. An order is a few of the files in a random sequence, a few random cases of each, with a random number of workers,
and an empty cache or one that an earlier run has filled in part. Every file of every artifact must be as expected,
except for measured seconds. For each number of workers, orders share the process that workers are forked from, and the
workers that an earlier order left: that is one more way in which one file may affect another, and makes an order cheap.

Prints a line for each order; exits with 1 after the first one that differs, and names the difference.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Self

from ligerdiag.artifacts.artifact import MANIFEST, PROVENANCE, Artifact
from ligerdiag.artifacts.cache import LOCKS, Cache
from ligerdiag.compile.compile_service import compile_cases, discover_cases
from ligerdiag.model.jobs import CaseSpec
from ligerdiag.toolchains.gpu_targets import Target, load_target
from ligerdiag.workers.pool import Pool

MOST_WORKERS = 3
FEWEST_FILES, MOST_FILES = 2, 4
MOST_CASES = 2
"""The most cases of one file in a random order."""
RARE = 0.1
"""The fraction of orders that may have a slow file."""

type Digests = Mapping[str, str]
"""Path of a file in its artifact to the sha256 of its content without measured times; "" to an error."""
type Artifacts = Mapping[str, Digests]
"""`file:case` to its compilation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One way to compile some files."""

    files: tuple[str, ...]
    jobs: int
    warm: int
    """How many of the files, from the front, an earlier run has compiled."""
    cases: int = 0
    """The most cases of one file; 0 for all."""
    seed: int = 0
    """Seed of the choice of the cases, and of the order in which the earlier run compiled its files."""

    def __str__(self) -> str:
        names = " ".join(Path(file).stem for file in self.files)
        return f"-j {self.jobs}, {self.warm} warm, at most {self.cases or 'all'} cases each, seed {self.seed}: {names}"


def draw_order(files: Sequence[str], random_numbers: random.Random, rarely: Set[str] = frozenset()) -> Order:
    """Draws an order of a few of the files. rarely: names of slow files, which few orders may have."""
    allowed = [file for file in files if Path(file).stem not in rarely or random_numbers.random() < RARE]
    most = min(MOST_FILES, len(allowed))
    drawn = random_numbers.sample(allowed, random_numbers.randint(min(FEWEST_FILES, most), most))
    return Order(
        files=tuple(drawn),
        jobs=random_numbers.randint(1, MOST_WORKERS),
        warm=random_numbers.choice((0, 0, random_numbers.randint(0, len(drawn)))),
        cases=random_numbers.randint(1, MOST_CASES),
        seed=random_numbers.randrange(1 << 31),
    )


class OrderCompiler:
    """Compiles orders one after the other, each on an empty cache; a context manager."""

    def __init__(self, target: Target, folder: Path, of_each: int = 0) -> None:
        """folder: an existing empty folder for the caches. of_each: how many cases of each file count; 0 for all."""
        self._of_each = of_each
        self._target = target
        self._folder = folder
        self._stack = ExitStack()
        self._pools: dict[int, Pool] = {}
        self._expected: dict[str, Artifacts] = {}
        self.cache = folder / "cache"
        """The cache that the last order has left."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def compile_alone(self, file: str) -> Artifacts:
        """Returns all cases of the file, compiled once by a fresh worker on a cache of its own."""
        if file not in self._expected:
            with (
                tempfile.TemporaryDirectory(dir=self._folder) as cache,
                Pool(cache=Cache(Path(cache)), jobs=1, forks=False) as pool,
            ):
                self._expected[file] = self._compile(self._discover([file], pool), pool)
        return self._expected[file]

    def compile(self, order: Order) -> Artifacts:
        """Returns the chosen cases of the order's files."""
        _empty(self.cache)
        pool = self._provide_pool(order.jobs)
        warmed = list(order.files[: order.warm])
        random.Random(order.seed).shuffle(warmed)
        if warmed:
            self._compile(_choose_cases(self._discover(warmed, pool), order), pool)
        return self._compile(_choose_cases(self._discover(order.files, pool), order), pool)

    def _discover(self, files: Sequence[str], pool: Pool) -> list[CaseSpec]:
        found = discover_cases(files, pool=pool)
        sources = dict.fromkeys(case.source for case in found)
        each = [[case for case in found if case.source == source] for source in sources]
        return [case for cases in each for case in cases[: self._of_each or len(cases)]]

    def _compile(self, cases: Sequence[CaseSpec], pool: Pool) -> Artifacts:
        return {
            f"{Path(str(result.case.source)).stem}:{result.case.id}": {"": str(result.error)}
            if result.artifact is None
            else compute_digests(result.artifact)
            for result in compile_cases(cases, [self._target], pool=pool)
        }

    def _provide_pool(self, jobs: int) -> Pool:
        if jobs not in self._pools:
            self._pools[jobs] = self._stack.enter_context(Pool(cache=Cache(self.cache), jobs=jobs))
        return self._pools[jobs]


def compute_digests(artifact: Artifact) -> Digests:
    """Returns a digest of each file except the manifest, which has the sums of the same files."""
    digests: dict[str, str] = {}
    for path in sorted(artifact.directory.rglob("*")):
        if path.is_file() and path.name != MANIFEST:
            data = path.read_bytes()
            if path.name == PROVENANCE:
                fields = {name: value for name, value in json.loads(data).items() if not name.endswith("_seconds")}
                data = json.dumps(fields, sort_keys=True).encode()
            digests[path.relative_to(artifact.directory).as_posix()] = sha256(data).hexdigest()
    return digests


def find_difference(expected: Artifacts, found: Artifacts) -> tuple[str, ...]:
    """Returns how a compiled case differs from the expected one."""
    return tuple(
        f"{case}/{name}"
        for case, digests in sorted(found.items())
        for name in sorted(digests.keys() | expected.get(case, {}).keys())
        if digests.get(name) != expected.get(case, {}).get(name)
    )


def _choose_cases(cases: Sequence[CaseSpec], order: Order) -> list[CaseSpec]:
    """Returns random cases of each file, the same in each run of an order."""
    chosen: list[CaseSpec] = []
    for source in dict.fromkeys(case.source for case in cases):
        found = [case for case in cases if case.source == source]
        numbers = random.Random(f"{order.seed} {Path(source.file).name}")
        chosen += numbers.sample(found, min(order.cases or len(found), len(found)))
    return chosen


def _empty(cache: Path) -> None:
    """Removes the entries and keeps the locks, which belong to running processes."""
    for path in cache.glob("*/*"):
        if path.parent.name != LOCKS:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def main() -> int:
    """Compares random orders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="case files; by default all of cases/")
    parser.add_argument("--orders", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", default="h100")
    parser.add_argument("--of-each", type=int, default=0, help="how many of each file's cases count; 0 for all")
    parser.add_argument("--rarely", nargs="*", default=(), metavar="NAME", help="slow files, which few orders have")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no order after that many minutes")
    parser.add_argument("--keep", type=Path, help="folder for the cache of an order that differs")
    options = parser.parse_args()
    files = options.files or sorted(str(path) for path in Path("cases").glob("*.py") if path.name != "__init__.py")
    numbers, end = random.Random(options.seed), time.monotonic() + 60 * options.minutes
    compared, seen = 0, set[str]()
    with (
        tempfile.TemporaryDirectory(prefix="ligerdiag-orders-") as folder,
        OrderCompiler(load_target(options.target), Path(folder), options.of_each) as compiler,
    ):
        for count in range(options.orders):
            if time.monotonic() > end:
                sys.stdout.write(f"out of time after {count} orders\n")
                break
            order = draw_order(files, numbers, frozenset(options.rarely))
            expected = {name: one for file in order.files for name, one in compiler.compile_alone(file).items()}
            found = compiler.compile(order)
            different = find_difference(expected, found)
            compared, seen = compared + sum(map(len, found.values())), seen | found.keys()
            sys.stdout.write(f"{count + 1}/{options.orders} {'differs' if different else 'same'}, {order}\n")
            sys.stdout.flush()
            if different:
                if options.keep is not None:
                    shutil.copytree(compiler.cache, options.keep, symlinks=True)
                sys.stdout.write("\n".join(different) + "\n")
                return 1
    sys.stdout.write(f"{compared} files of artifacts of {len(seen)} cases compared: all the same\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
