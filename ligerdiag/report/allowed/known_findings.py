"""Reads and writes the file of known findings: a run fails only on findings that are not in it.

A team that starts with thirty findings records them once, and from then on a run fails only on others. A finding is
known if the file has an entry of the same case, target, rule, kernel, operand and function that is at least as severe
and names all of the finding's outputs. Each entry allows one finding, so a second one of the same kind is new. Lines,
and names of instructions, do not matter: they change with each edit and each release of XLA. Bytes do not matter
either: a known copy may grow, which a budget or a baseline reports. A drift or an exceeded budget is never known, since
an option of the run asks for it.

The file is JSON, sorted and indented, so that version control shows what changed.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ligerdiag.codec import (
    FieldError,
    as_object,
    decode_text,
    parse_object,
    read_int,
    read_list,
    read_str,
    read_strs,
    read_word,
)
from ligerdiag.errors import ArtifactError, InputError
from ligerdiag.model.findings import Finding, Severity, Suppression, SuppressionKind
from ligerdiag.text import join_words
from ligerdiag.untrusted_files import read_untrusted

FORMAT = 1
MAX_BYTES = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFinding:
    """The properties by which the file of known findings identifies a finding.

    Properties that change when other code is edited, such as line numbers, are not among them.
    """

    case: str
    target: str
    rule: str
    severity: Severity
    kernel: str
    operand: int | None
    function: str
    """Name of the user's function at the finding's line; empty if unknown."""
    outputs: tuple[str, ...]
    """Sorted names of the outputs that the finding reaches."""

    def covers(self, other: "KnownFinding") -> bool:
        """Returns whether an entry `self` of the file allows the finding `other`.

        It does if all properties are equal, except that `other` may be less severe and may name fewer outputs.
        """
        return (
            (self.case, self.target, self.rule) == (other.case, other.target, other.rule)
            and (self.kernel, self.operand, self.function) == (other.kernel, other.operand, other.function)
            and self.severity.weight >= other.severity.weight
            and set(self.outputs) >= set(other.outputs)
        )


def identify_finding(case: str, target: str, finding: Finding) -> KnownFinding:
    """Returns those properties of a finding by which the file of known findings identifies it."""
    return KnownFinding(
        case=case,
        target=target,
        rule=finding.rule,
        severity=finding.severity,
        kernel=finding.kernel,
        operand=finding.operand,
        function=finding.source.function if finding.source is not None else "",
        outputs=tuple(sorted(finding.outputs)),
    )


@dataclass(slots=True)
class KnownFindings:
    """The findings in a file of known findings, and which of them a run has found again."""

    findings: tuple[KnownFinding, ...] = ()
    recorded: str = ""
    where: str = ""
    """The file's path as the user gives it."""
    _used: set[int] = field(default_factory=set[int])

    def allow(self, case: str, target: str, finding: Finding) -> Suppression | None:
        """Returns a suppression for a known finding, or None for a new one.

        A finding is known if an entry of the file covers it that no earlier finding has used. The entry then counts as
        used.
        """
        own = identify_finding(case, target, finding)
        matching = [n for n, one in enumerate(self.findings) if n not in self._used and one.covers(own)]
        if not matching:
            return None
        closest = min(matching, key=lambda n: (len(self.findings[n].outputs), n))
        self._used.add(closest)
        return Suppression(kind=SuppressionKind.KNOWN, reason=f"known since {self.recorded}", where=self.where)

    def describe_other_targets(self, new: Iterable[tuple[str, str, Finding]]) -> tuple[str, ...]:
        """Returns a line for each target with new findings that the file records only for other targets.

        A finding gets no line if the file records it for this target, but fewer times than it occurs now.
        new: case, target and finding of each finding that the file does not allow.
        """
        found: dict[str, dict[str, None]] = {}
        for case, target, finding in new:
            own = identify_finding(case, target, finding)
            having = dict.fromkeys(one.target for one in self.findings if replace(one, target=target).covers(own))
            if target not in having:  # else a second finding of its kind, for which the file has one entry too few
                found.setdefault(target, {}).update(dict.fromkeys(f"`{other}`" for other in having))
        return tuple(
            f"`{self.where}` records the new findings of `{target}` only for {join_words(list(others))}: a finding is known"
            f" only on the target for which it was recorded; `--target {target} --record-known {self.where}` adds them"
            for target, others in found.items()
            if others
        )

    def list_gone(self, analysed: Collection[tuple[str, str]]) -> tuple[KnownFinding, ...]:
        """Returns the entries that allowed no finding of this run although their case was analysed.

        analysed: case and target of each report that could be analysed.
        """
        return tuple(
            one for n, one in enumerate(self.findings) if n not in self._used and (one.case, one.target) in analysed
        )


def load_known(path: Path) -> KnownFindings:
    """Returns the known findings of a file. Raises InputError if the file is missing, too large, or has another format."""
    if not path.exists():
        raise InputError(f"no file `{path}`: write one with `ligerdiag check --record-known {path}`")
    try:
        data = read_untrusted(path, MAX_BYTES)
    except ArtifactError as error:
        raise InputError(f"cannot read the known findings: {error}") from None
    try:
        recorded, findings = parse_known(decode_text(data))
    except FieldError as error:
        raise InputError(f"`{path}` has no known findings that can be read: {error}; record them again") from None
    return KnownFindings(findings=findings, recorded=recorded, where=str(path))


def parse_known(text: str) -> tuple[str, tuple[KnownFinding, ...]]:
    """Returns the date and the findings in the JSON text of a file of known findings.

    Leaves out drifts and exceeded budgets, which earlier versions recorded. Raises FieldError if the text has another
    format.
    """
    top = parse_object(text)
    if read_int(top, "format") != FORMAT:
        raise FieldError(
            f"expected format {FORMAT} but got {read_int(top, 'format')}: the file is from another version of ligerdiag"
        )
    found: list[KnownFinding] = []
    for item in read_list(top, "findings"):
        fields = as_object(item, "findings")
        found.append(
            KnownFinding(
                case=read_str(fields, "case"),
                target=read_str(fields, "target"),
                rule=read_str(fields, "rule"),
                severity=read_word(Severity, fields, "severity"),
                kernel=read_str(fields, "kernel"),
                operand=None if fields.get("operand") is None else read_int(fields, "operand"),
                function=read_str(fields, "function"),
                outputs=tuple(sorted(read_strs(fields, "outputs"))),
            )
        )
    return read_str(top, "recorded"), tuple([one for one in found if _can_be_known(one)])


def render_known(
    found: Iterable[KnownFinding], analysed: Collection[tuple[str, str]], earlier: KnownFindings | None, date: str
) -> str:
    """Returns the text of a new file of known findings.

    It has the findings of a run, without drifts and exceeded budgets. It also has the entries of `earlier` for cases that
    the run has not analysed.

    analysed: case and target of each report that could be analysed. date: as YYYY-MM-DD.
    """
    rest = () if earlier is None else earlier.findings
    kept = [one for one in rest if (one.case, one.target) not in analysed]
    plain = [_render(one) for one in (*kept, *found) if _can_be_known(one)]
    plain.sort(key=lambda one: json.dumps(one, sort_keys=True))
    top = {"format": FORMAT, "recorded": date, "findings": plain}
    return json.dumps(top, indent=1, sort_keys=True) + "\n"


def _can_be_known(one: KnownFinding) -> bool:
    from ligerdiag.rules.registry import list_ids  # slow: the help of a command needs none of the rules
    from ligerdiag.rules.rule import BEYOND_EXPECTATION

    return one.rule not in list_ids(*BEYOND_EXPECTATION)


def _render(one: KnownFinding) -> dict[str, object]:
    return {
        "case": one.case,
        "target": one.target,
        "rule": one.rule,
        "severity": one.severity.value,
        "kernel": one.kernel,
        "operand": one.operand,
        "function": one.function,
        "outputs": list(one.outputs),
    }
