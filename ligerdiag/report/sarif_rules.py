"""The rules in SARIF: those of `hazards`, and an entry for each kind of trouble."""

from collections.abc import Sequence
from typing import Any

from ligerdiag.findings import Severity
from ligerdiag.hazards.registry import RULES
from ligerdiag.hazards.rule import Rule
from ligerdiag.report.troubles import PAGES, TroubleKind

type Json = dict[str, Any]

UNUSED_SUPPRESSION = "unused-suppression"
INTERRUPTED = "interrupted"
NOTE = "note"

_UNUSED_SUMMARY = "a suppression that allows nothing, or that gives no reason"
_UNUSED_HELP = "take it away, or mend it: docs/suppressions.md"

_FIRST = tuple(kind for kind in TroubleKind if kind is not TroubleKind.NOT_CHECKED)
RULE_IDS: Sequence[str] = (*(rule.id for rule in RULES), *_FIRST, UNUSED_SUPPRESSION, TroubleKind.NOT_CHECKED)
"""Ids of everything that a result can be of, a newer one at the end; the position is the result's `ruleIndex`."""


def render_rules() -> list[Json]:
    """`tool.driver.rules`, in the order of `RULE_IDS`."""
    return [
        *(_render_rule(rule) for rule in RULES),
        *(_render_trouble_kind(kind) for kind in _FIRST),
        _render_descriptor(UNUSED_SUPPRESSION, _UNUSED_SUMMARY, _UNUSED_HELP, Severity.WARNING),
        _render_trouble_kind(TroubleKind.NOT_CHECKED),
    ]


def render_notifications() -> list[Json]:
    """Returns `tool.driver.notifications`: messages about the run itself."""
    return [
        *(
            {"id": kind.value, "shortDescription": {"text": PAGES[kind].summary}}
            for kind in (TroubleKind.NOT_ANALYSED, TroubleKind.NOT_CHECKED, TroubleKind.NO_NUMBERS)
        ),
        {"id": INTERRUPTED, "shortDescription": {"text": "the run was cut short, and not every case was done"}},
        {"id": NOTE, "shortDescription": {"text": "what was found and is no case of the report"}},
    ]


def _render_trouble_kind(kind: TroubleKind) -> Json:
    page = PAGES[kind]
    return _render_descriptor(kind, page.summary, page.help, page.severity)


def _render_rule(rule: Rule) -> Json:
    sections = (
        ("What it does", rule.what_it_does),
        ("Why it is a hazard", rule.why),
        ("What to do", rule.what_to_do),
        ("Limits", rule.limits),
    )
    examples = f"Examples: `ligerdiag explain {rule.id}`"
    references = "\n".join(f"- {reference}" for reference in rule.references) or "None."
    return {
        "id": rule.id,
        "name": rule.name,
        "shortDescription": {"text": _flow(rule.summary)},
        "fullDescription": {"text": _flow(rule.what_it_does)},
        "help": {
            "text": "\n\n".join((*(f"{heading}: {_flow(text)}" for heading, text in sections if text), examples)),
            "markdown": "\n\n".join(
                (
                    *(f"## {heading}\n\n{text.strip()}" for heading, text in sections if text),
                    f"## References\n\n{references}",
                    examples,
                )
            ),
        },
        "defaultConfiguration": {"level": rule.severity.value},
    }


def _render_descriptor(name: str, summary: str, remedy: str, severity: Severity) -> Json:
    return {
        "id": str(name),
        "shortDescription": {"text": summary},
        "fullDescription": {"text": summary},
        "help": {"text": remedy, "markdown": remedy},
        "defaultConfiguration": {"level": severity.value},
    }


def _flow(text: str) -> str:
    return " ".join(text.split())
