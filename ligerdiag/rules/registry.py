"""Finds all rules by the names of their files, and runs them. The id of a rule is never used again for another rule."""

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
"""All rules, in the order of their ids. Each file `ldNNN_name.py` in `schedules/` or `programs/` defines one as `RULE`."""

_NEARNESS = 0.7


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The findings of all rules about one compile, and the rules that raised an exception."""

    findings: tuple[Finding, ...]
    """The findings, in the order of the rules."""
    failures: tuple[RuleFailure, ...]
    """The rules that raised an exception. It is unknown whether the hazards of these rules are present."""


def get_rule(id_or_name: str) -> Rule:
    """Returns the rule with this id or name, such as `LD001` or `stale-read`, in upper or lower case.

    Raises InputError if there is none. The message names similar rules, or all rules if none is similar.
    """
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
    """Returns the ids of all rules of these kinds."""
    return frozenset(rule.id for rule in RULES if rule.kind in kinds)


def get_only_id(kind: RuleKind) -> str:
    """Returns the id of the only rule of this kind. Raises AssertionError unless exactly one rule is of this kind."""
    found = sorted(list_ids(kind))
    assert len(found) == 1, (
        f"expected one rule of the kind {kind.name} but got {join_words(found) or 'none'}:"
        " a rule that was copied from another one must not keep `kind`"
    )
    return found[0]


def _find_near(wanted: str) -> tuple[Rule, ...]:
    """Returns the rules whose id has this number or whose name contains this text, else those with a similar name.
    wanted: what the user typed.
    """
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
    """Runs `check` of every rule, and returns the findings.

    They follow from the static analysis alone, without a replay or a device run.
    """
    return _run_all(lambda rule: rule.check(context), lambda rule: ())


def check_measured(measured: Measured) -> Answers:
    """Runs `measure` of every rule after a replay or a device run, and returns the findings.

    The `measure` of a rule returns the complete list of the rule's findings. A rule without `measure`, or whose `measure`
    raises, keeps the findings of its `check`.
    """

    def find_static(rule: Rule) -> Iterable[Finding]:
        return measured.findings_of(rule.id)

    return _run_all(lambda rule: find_static(rule) if rule.measure is None else rule.measure(measured), find_static)


def _run_all(run: Callable[[Rule], Iterable[Finding]], fall_back: Callable[[Rule], Iterable[Finding]]) -> Answers:
    """Runs all rules; a rule that raises an exception becomes a failure and stops no other. LigerdiagError (such as one
    about a limit of time) and MemoryError propagate; with LIGERDIAG_DEBUG every exception does.

    run: yields the findings of a rule. fall_back: yields the findings to use for a rule that raised an exception.
    """
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
            message = f"rule {rule.id} {rule.name} failed, so it is unknown whether its hazard is present: {what}"
            failures.append(RuleFailure(rule=rule.id, message=message))
    return Answers(findings=tuple(findings), failures=tuple(failures))


def find_undecided_rules(*, replayed: bool, ran: bool) -> frozenset[str]:
    """Returns the ids of the rules that could not decide for lack of a replay or a device run.

    The rules about drift from a baseline and about budgets are always among them, because these rules run only if an
    option asks for them. replayed: whether there was a replay. ran: whether there was a device run.
    """
    missing = {DecidedBy.REPLAY: not replayed, DecidedBy.DEVICE: not ran}
    missing |= {DecidedBy.BASELINE: True, DecidedBy.BUDGET: True}
    return frozenset(rule.id for rule in RULES if missing.get(rule.decided_by, False))
