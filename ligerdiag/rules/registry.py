"""Finds all rules by their files, and runs them. Ids are never reused."""

import difflib
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ligerdiag.analysis.context import Context
from ligerdiag.errors import InputError, LigerdiagError, describe_bug
from ligerdiag.model.findings import Finding, RuleFailure
from ligerdiag.rules import programs, schedules
from ligerdiag.rules.rule import DecidedBy, Measured, Rule, RuleKind
from ligerdiag.text import join_words

_FILE = re.compile(r"ld\d{3}_\w+")


def _find_rules() -> Iterator[Rule]:
    for package in (schedules, programs):
        for module in pkgutil.iter_modules(package.__path__):
            if _FILE.fullmatch(module.name):
                rule = importlib.import_module(f"{package.__name__}.{module.name}").RULE
                assert isinstance(rule, Rule)
                yield rule


RULES: tuple[Rule, ...] = tuple(sorted(_find_rules(), key=lambda rule: rule.id))
"""In the order of their ids. A file `ldNNN_name.py` in `schedules/` or `programs/` that defines `RULE` is a rule."""

_NEARNESS = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The findings of all rules about one module."""

    findings: tuple[Finding, ...]
    """In the order of the rules."""
    failures: tuple[RuleFailure, ...]
    """Rules that raised, so that what they look for is unknown."""


def get_rule(id_or_name: str) -> Rule:
    """Returns the rule `LD001` or `stale-read`, in any case. Raises InputError with the nearest rules, or all."""
    wanted = id_or_name.lower()
    for rule in RULES:
        if wanted in (rule.id.lower(), rule.name):
            return rule
    near = _find_near(re.sub(r"[\s_]+", "-", wanted.strip()))
    if near:
        hint = join_words([f"{rule.id} `{rule.name}`" for rule in near], "or")
        raise InputError(f"no rule `{id_or_name}`, did you mean {hint}")
    known = ", ".join(f"{rule.id} {rule.name}" for rule in RULES)
    raise InputError(f"no rule `{id_or_name}`; known: {known}")


def list_ids(*kinds: RuleKind) -> frozenset[str]:
    """Returns the ids of the rules of these kinds."""
    return frozenset(rule.id for rule in RULES if rule.kind in kinds)


def get_only_id(kind: RuleKind) -> str:
    """Returns the id of the one rule of this kind, for kinds of which there is exactly one."""
    found = sorted(list_ids(kind))
    assert len(found) == 1, (
        f"expected one rule of the kind {kind.name} but got {join_words(found) or 'none'}:"
        " a rule made from a copy must not keep `kind`"
    )
    return found[0]


def _find_near(wanted: str) -> tuple[Rule, ...]:
    """Returns the rules with this number in their id or text in their name, else those with a similar name."""
    if not wanted:
        return ()
    digits = re.fullmatch(r"(?:ld)?-?0*(\d+)", wanted)
    if digits:
        return tuple(rule for rule in RULES if int(rule.id.removeprefix("LD")) == int(digits[1]))
    found = tuple(rule for rule in RULES if wanted in rule.name)
    if found:
        return found
    near = difflib.get_close_matches(wanted, [rule.name for rule in RULES], 3, _NEARNESS)
    if near:
        return tuple(rule for rule in RULES if rule.name in near)
    parts = set(wanted.split("-"))
    return tuple(rule for rule in RULES if parts & set(rule.name.split("-")))


def check_all(context: Context) -> Answers:
    """Runs the `check` of every rule."""
    return _run_all(lambda rule: rule.check(context), lambda rule: ())


def check_measured(measured: Measured) -> Answers:
    """Runs the `measure` of every rule, which returns its complete list of findings.

    A rule without `measure`, or whose `measure` raises, keeps its static findings.
    """

    def find_static(rule: Rule) -> Iterable[Finding]:
        return measured.findings_of(rule.id)

    return _run_all(lambda rule: find_static(rule) if rule.measure is None else rule.measure(measured), find_static)


def _run_all(run: Callable[[Rule], Iterable[Finding]], fall_back: Callable[[Rule], Iterable[Finding]]) -> Answers:
    """Runs every rule. A rule that raises fails alone, except at limits of time or memory and with LIGERDIAG_DEBUG."""
    findings: list[Finding] = []
    failures: list[RuleFailure] = []
    for rule in RULES:
        try:
            findings += tuple(run(rule))
        except (LigerdiagError, MemoryError):
            raise
        except Exception as fault:
            what = describe_bug(fault)
            findings += tuple(fall_back(rule))
            message = f"rule {rule.id} {rule.name} failed, so what it looks for is unknown: {what}"
            failures.append(RuleFailure(rule=rule.id, message=message))
    return Answers(findings=tuple(findings), failures=tuple(failures))


def find_undecided_rules(*, replayed: bool, ran: bool) -> frozenset[str]:
    """Returns the ids of the rules that lack evidence without a replay or without a device run.

    A drift is never decided: no case can expect one, and the next baseline may need its suppression. Nor is a budget,
    which is an option of the run.
    """
    missing = {DecidedBy.REPLAY: not replayed, DecidedBy.DEVICE: not ran}
    missing |= {DecidedBy.BASELINE: True, DecidedBy.BUDGET: True}
    return frozenset(rule.id for rule in RULES if missing.get(rule.decided_by, False))
