"""What is known of the cases of one run so far."""

from dataclasses import dataclass, field

from ligerdiag.compile.job import Source
from ligerdiag.replay.service import ReplayTask
from ligerdiag.report.model import CaseReport

type Key = tuple[Source, str, str]
"""Source, case and target."""


@dataclass(slots=True, kw_only=True)
class Run:
    """What is known of the cases so far; filled step by step, so that Ctrl-C leaves what was done."""

    order: tuple[Key, ...] = ()
    reports: dict[Key, CaseReport] = field(default_factory=dict["Key", CaseReport])
    tasks: list[ReplayTask] = field(default_factory=list[ReplayTask])
