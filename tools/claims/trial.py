"""Defines the outcome of one mutation, and the interface between a kind of input and the driver."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from random import Random
from typing import Protocol

from jsonschema import Draft202012Validator

from ligerdiag import api
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CheckReport, Noun
from ligerdiag.model.report import Judged as JudgedCase
from ligerdiag.report.json import render_json
from ligerdiag.report.terminal.full_report import render_terminal
from tools.claims.judging import Judged, find_improved
from tools.claims.mutation import Claim
from tools.json_schema import load_schema


class Outcome(StrEnum):
    """How ligerdiag handled the mutated input."""

    REFUSED = "refused"
    AS_BEFORE = "as before"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One mutation, judged."""

    words: str
    """Description of the mutation."""
    outcome: Outcome
    contradictions: tuple[str, ...] = ()
    """Verdicts better than the mutation's claim allows."""
    invalid: tuple[str, ...] = ()
    """The parts of the JSON output that do not meet the schema."""
    tracebacks: tuple[str, ...] = ()
    """Bugs that a report already names; any other bug is raised as the exception itself."""


class Kind(Protocol):
    """One kind of input, with its good inputs ready."""

    name: str

    def run(self, random: Random) -> Trial:
        """Mutates a copy of a good input and judges it."""
        ...

    def close(self) -> None:
        """Ends the processes that it started."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A rendered report, for a comparison with the one before."""

    judged: Judged
    invalid: tuple[str, ...] = ()
    tracebacks: tuple[str, ...] = field(default_factory=tuple[str, ...])


def describe(made: JudgedCase, *, noun: Noun = Noun.MODULE) -> Described:
    """Concludes and renders the report in all detail, and checks its JSON against the schema."""
    case = api.conclude(made)
    whole = CheckReport(cases=(case,), targets=(case.target,), toolchain="", noun=noun)
    render_terminal(whole, width=100, colour=True, verbose=True)
    bug = (f"{case.error}\n{case.log_tail}",) if "which is a bug" in case.error else ()
    refusal = case.error or "; ".join(failure.message for failure in case.failures)
    judged = Judged(outputs=case.outputs, refusal=refusal, notes=case.coverage.not_covered)
    bug += tuple(f"{failure.message}" for failure in case.failures)
    return Described(judged=judged, invalid=find_invalid(render_json(whole)), tracebacks=bug)


def find_invalid(text: str) -> tuple[str, ...]:
    """Returns the parts of the JSON output that do not meet the schema."""
    return tuple(
        f"{error.json_path}: {error.message:.120}" for error in _make_validator().iter_errors(json.loads(text))
    )


def find_contradictions(
    before: Mapping[str, Verdict], after: Mapping[str, Verdict], claims: Collection[Claim]
) -> tuple[str, ...]:
    """Does the same as `find_improved`; returns nothing if there is no claim."""
    return tuple(find_improved(Judged(outputs=before), Judged(outputs=after), claims)) if claims else ()


def make_trial(
    words: str, before: Judged, described: Described, claims: Collection[Claim], others: tuple[str, ...] = ()
) -> Trial:
    """Makes a trial from the verdicts before and after. others: contradictions of another sort."""
    after = described.judged
    refused = bool(after.refusal) and not after.outputs
    outcome = Outcome.REFUSED if refused else Outcome.AS_BEFORE if after.outputs == before.outputs else Outcome.OTHER
    return Trial(
        words=words,
        outcome=outcome,
        contradictions=(*find_contradictions(before.outputs, after.outputs, claims), *others),
        invalid=described.invalid,
        tracebacks=described.tracebacks,
    )


@cache
def _make_validator() -> Draft202012Validator:
    return Draft202012Validator(load_schema())
