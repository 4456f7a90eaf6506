"""The results of the benchmark, one row for each report, as a JSON file that grows during a run."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmark.judging import Cured, Judgement, Outcome
from benchmark.report import Entry

ROWS = Path(__file__).parent / "rows.json"
"""The results that `docs/benchmark.md` shows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The results for one report."""

    name: str
    digest: str
    """Identifies the text of the report's files, so that a run repeats only what has changed."""
    bad: Judgement = field(default_factory=Judgement)
    cured: Judgement = field(default_factory=Judgement)
    cured_is: str = ""
    """A value of `Cured`; empty if there is no program."""
    others: Mapping[str, str] = field(default_factory=dict[str, str])
    """From the name of another tool to a value of `Outcome`, or another short text."""

    @property
    def ours(self) -> str:
        """Returns what ligerdiag says in one word; `missed` if no program shows the report."""
        if not self.cured_is:
            return Outcome.MISSED.value
        return "false" if self.cured_is == Cured.FALSE else self.bad.outcome.value

    @property
    def verdict(self) -> tuple[str, ...]:
        """Returns the part of the row that may not depend on names in the programs."""
        return (self.name, self.ours, self.cured_is, *(f"{who}={what}" for who, what in self.bad.witnesses.items()))


def compute_digest(entry: Entry) -> str:
    """Returns a sha256 of the report's own file and its modules."""
    files = [entry.file, *(one for one in (entry.bad, entry.cured) if isinstance(one, Path))]
    return sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]


def load_rows(path: Path) -> dict[str, Row]:
    """Returns the rows of the file by name; none if there is no such file."""
    if not path.exists():
        return {}
    return {raw["name"]: _parse_row(raw) for raw in json.loads(path.read_text())}


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Writes the rows in the order of their names."""
    ordered = sorted(rows, key=lambda row: row.name)
    text = ",\n".join(json.dumps(asdict(row)) for row in ordered)
    path.write_text(f"[\n{text}\n]\n")


def _parse_row(raw: Mapping[str, Any]) -> Row:
    judged = {part: Judgement(**{**raw[part], "rules": tuple(raw[part]["rules"])}) for part in ("bad", "cured")}
    return Row(**{**raw, **judged})
