"""Compiles good inputs of every kind once: dumps of some cases, and the cache and the baseline of a `check` of them."""

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from ligerdiag.artifacts.cache import Cache
from ligerdiag.toolchains.toolchain import current_toolchain, worker_environment
from tools.claims.artifact_kind import ArtifactKind
from tools.claims.baseline_kind import BaselineKind
from tools.claims.cache_kind import CacheKind
from tools.claims.pair_kind import PairKind
from tools.claims.pairs import load_pair
from tools.claims.payload_kind import PayloadKind
from tools.claims.text_kind import TextKind, load_text_dump
from tools.claims.trial import Kind

ROOT = Path(__file__).parents[2]
CASES = {
    "losses": ("cases/two_losses.py", "two_losses[same-hidden]"),
    "loop": ("cases/loop_carry.py", "loop_carry[gradient-hidden]"),
    "flce": ("cases/seed_flce.py", "seed_flce[False-float32-True-1-4-32-16]"),
}
FLAGS = {"xla_dump_hlo_as_proto": True, "xla_dump_hlo_as_text": True}
DUMPS, CACHE, BASELINE = "dumps", "cache", "baseline.json"
NAMES = ("pairs", "triton", "text", "artifacts", "caches", "baselines")


def make_seeds(folder: Path, cases: Sequence[str] = tuple(CASES)) -> None:
    """Compiles the cases into the folder, unless it has them."""
    if (folder / BASELINE).exists():
        return
    dumps = [
        {"file": str(ROOT / CASES[case][0]), "id": CASES[case][1], "into": str(folder / DUMPS / name), "tagged": tagged,
         "flags": FLAGS}
        for case in cases
        for name, tagged in ((case, True), (f"{case}-untagged", False))
    ]  # fmt: skip
    environment = worker_environment(current_toolchain(), Cache(folder / CACHE).root)
    _run("-m", "tests.dumps.make_dumps", json.dumps(dumps), environment=environment)
    ids = [CASES[case][1] for case in cases]
    _run(
        *("-m", "ligerdiag", "check", *ids, "--no-replay", "--cache-dir", str(folder / CACHE)),
        *("--record", str(folder / BASELINE)),
    )


def open_kinds(folder: Path, scratch: Path, stack: ExitStack, names: Sequence[str] = NAMES) -> list[Kind]:
    """Returns the kinds of these names, with the seeds of `make_seeds`; the stack closes them."""
    dumps = sorted((folder / DUMPS).iterdir())
    cache = Cache(scratch / "cache")
    effects = cache.root / "effects"
    artifacts = sorted((folder / CACHE / "artifacts").iterdir())
    pairs = [load_pair(dump) for dump in dumps]
    makers = {
        "pairs": lambda: PairKind(pairs, effects),
        "triton": lambda: PayloadKind(pairs, effects),
        "text": lambda: TextKind([load_text_dump(dump) for dump in dumps], cache),
        "artifacts": lambda: ArtifactKind(artifacts, cache),
        "caches": lambda: CacheKind(folder / CACHE, scratch),
        "baselines": lambda: BaselineKind(folder / BASELINE, artifacts, effects, scratch),
    }
    kinds: list[Kind] = []
    for name in names:
        kind = makers[name]()
        stack.callback(kind.close)
        kinds.append(kind)
    return kinds


def _run(*words: str, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(words)[:200]}: {done.stderr[-2000:]}")
