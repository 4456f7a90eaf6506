"""Keeps the results of replays: by the program, its arguments and reference, and all of our code that computes numbers.

Files of the project that were imported are remembered with their sha256, as for every answer of the cache. A worker's
death and "too large" are never kept.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache as remember
from hashlib import sha256
from importlib import metadata
from pathlib import Path

from ligerdiag.compile.artifacts import PROVENANCE, Artifact, compute_file_sha256
from ligerdiag.compile.cache import REPLAYS, Cache
from ligerdiag.compile.fields import FieldError, read_float, read_int, read_object
from ligerdiag.compile.job import CaseSpec
from ligerdiag.compile.toolchain import Toolchain, compute_important_environment
from ligerdiag.outcomes import Replay, ReplayState
from ligerdiag.replay.job import ReplayAnswer
from ligerdiag.replay.record import parse_replay, render_replay

KEPT = frozenset({ReplayState.DONE, ReplayState.NOT_COVERED})
_PARTS = ("replay", "analysis", "effects", "hlo", "case.py", "outcomes.py", "compile/arguments.py")
"""Files and folders of ligerdiag that a number can depend on, beside those that the artifact's key covers."""


class Results:
    """The replays and estimates of one cache and toolchain."""

    def __init__(self, cache: Cache, toolchain: Toolchain) -> None:
        self._cache = cache
        self._circumstances: dict[str, object] = {
            "fingerprint": compute_fingerprint(),
            "versions": {**toolchain.versions, **_compute_versions()},
            "environment": compute_important_environment(),
        }

    def find(self, case: CaseSpec, artifact: Artifact, *, rows: bool) -> Replay | None:
        """Returns the result for this program with these arguments, if it is still valid."""
        answer = self._cache.find_answer(self._ask(case, artifact, rows), REPLAYS)
        try:
            return None if answer is None else replace(parse_replay(read_object(answer, "replay")), cached=True)
        except FieldError:
            return None

    def keep(self, case: CaseSpec, artifact: Artifact, answer: ReplayAnswer, *, rows: bool) -> None:
        """Writes it down if it is worth it."""
        if answer.replay.state in KEPT:
            kept = {"replay": render_replay(answer.replay)}
            self._cache.keep_answer(self._ask(case, artifact, rows), answer.dependencies, kept, REPLAYS)

    def find_estimate(self, artifact: Artifact, cores: int) -> tuple[float, int] | None:
        """(seconds, bytes) that were estimated before."""
        answer = self._cache.find_answer(self._ask_for_estimate(artifact, cores), REPLAYS)
        try:
            return None if answer is None else (read_float(answer, "seconds"), read_int(answer, "bytes"))
        except FieldError:
            return None

    def keep_estimate(self, artifact: Artifact, cores: int, estimate: tuple[float, int]) -> None:
        """Writes it down."""
        path = artifact.directory / PROVENANCE
        kept = {"seconds": estimate[0], "bytes": estimate[1]}
        self._cache.keep_answer(
            self._ask_for_estimate(artifact, cores), {str(path): compute_file_sha256(path)}, kept, REPLAYS
        )

    def _ask(self, case: CaseSpec, artifact: Artifact, rows: bool) -> dict[str, object]:
        key = {"artifact": artifact.provenance.key, "draws": case.draws}
        return {"question": "replay", **key, "rows": rows, **self._circumstances}

    def _ask_for_estimate(self, artifact: Artifact, cores: int) -> dict[str, object]:
        key = {"artifact": artifact.provenance.key, "cores": cores}
        return {"question": "estimate", **key, **self._circumstances}


@remember
def compute_fingerprint() -> str:
    """sha256 of ligerdiag's own part in the numbers."""
    root = Path(__file__).parents[1]
    digest = sha256()
    for part in _PARTS:
        path = root / part
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(f"{file.relative_to(root)}\n".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()


def _compute_versions() -> Mapping[str, str]:
    return {package: metadata.version(package) for package in ("numpy", "ml-dtypes")}
