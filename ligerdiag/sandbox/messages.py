"""The messages between ligerdiag and the process that reads files: JSON records, each checked on arrival."""

import json
from dataclasses import dataclass
from pathlib import Path

from ligerdiag.codec import encode_record
from ligerdiag.dumps.find import ModuleFiles
from ligerdiag.inspection.module import InspectionRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The first line to the process: what holds for all that it will be asked."""

    request: InspectionRequest
    cache: Path
    """Root of the cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Its first line back, once its imports are done."""

    refused: tuple[str, ...]
    """Limits that the kernel refused, one line each; see `confinement`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One module, or one artifact."""

    answer: Path
    """The file that the process writes its ModuleOutcome to."""
    subject: ModuleFiles | Path
    """A module's files, or an artifact's directory; their paths are absolute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The answer is written."""

    answer: Path


def render_message(record: object) -> str:
    return json.dumps(encode_record(record)) + "\n"
