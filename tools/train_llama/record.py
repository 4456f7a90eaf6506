"""Records the results of trainings, one record for each run, in one JSON file. Imports no framework."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

PLAIN = "plain"
"""The mode of a loss without a kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One training, perhaps incomplete."""

    mode: str
    seed: int
    size: str
    layout: str
    devices: int
    device: str
    """JAX's name of the GPU."""
    losses: tuple[float, ...] = ()
    norms: tuple[float, ...] = ()
    """Norms of the gradient before clipping."""

    def extend(self, steps: Sequence[tuple[float, float]]) -> "Run":
        """Returns the run with the losses and norms of further steps."""
        losses, norms = zip(*steps, strict=True)
        return replace(self, losses=(*self.losses, *losses), norms=(*self.norms, *norms))

    @property
    def name(self) -> str:
        return f"{self.layout}-{self.size}-{self.devices}-{self.mode}-{self.seed}"


def write_runs(path: Path, runs: Sequence[Run]) -> None:
    """Replaces the file, completely or not at all."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(json.dumps([asdict(run) for run in runs], indent=1) + "\n", encoding="utf-8")
    beside.replace(path)


def read_runs(path: Path) -> tuple[Run, ...]:
    """Returns the runs of such a file; none if there is no file."""
    if not path.exists():
        return ()
    found = json.loads(path.read_text(encoding="utf-8"))
    return tuple(Run(**{**run, "losses": tuple(run["losses"]), "norms": tuple(run["norms"])}) for run in found)
