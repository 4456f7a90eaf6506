"""Finds which findings of a run are allowed, by which comment or configuration entry, and which of these suppressions
allowed nothing.

A comment such as `# ligerdiag: allow LD003 because the reader only logs` allows findings at its own line or, if it is alone
on its line, at the next line that is no comment. Several comments can precede one line, and a long reason can continue in
the next comment. A comment names rules by id or name, with commas between them; the rest, up to the next `#` with blanks
around it, is the reason. A comment allows a finding if it is at the line of the kernel call or at that of the reader.
Python's own tokenizer finds comments, so text in a string allows nothing.

An entry `[[tool.ligerdiag.suppress]]` of the configuration allows the findings that match all of its filters. In its
globs only `*` and `?` are special, because ids are full of brackets. If a comment and an entry match one finding, the
finding shows the comment, and both count as used.

A suppression is called unused only if the run would have seen its use: all cases that it can be about were in the run, each
was analysed to the end, and the rule had the numbers that it needs. A run without selectors includes all cases of the
project. A run of a file, a folder or a name in a module includes all cases of this file, folder or name. A run of an id or a
glob includes only some. A run that was interrupted, or that leaves out a target which the project is checked for by default,
has seen nothing in full.

Comments are searched in the files that findings name, below the folders of the user's sources, and in the files of the
cases; other files that a case imports are not searched. `read_source` decides which files may be read. A comment in a
file that came with the inspected dump allows nothing, so that a dump cannot allow its own findings.
"""

import io
import os
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ligerdiag.compile.cases.selectors import Selector, compile_glob, parse_selectors
from ligerdiag.errors import InputError
from ligerdiag.model.findings import Finding, ReplayState, SourceLine, Suppression, SuppressionKind, Verdict
from ligerdiag.model.jobs import Source
from ligerdiag.model.report import CaseReport, Status, UnusedSuppression
from ligerdiag.report.allowed.known_findings import KnownFindings
from ligerdiag.source_text import compute_place, is_below, read_source


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One entry `[[tool.ligerdiag.suppress]]` of the configuration. An empty glob in it matches everything."""

    rule: str
    """Id of the rule whose findings the entry allows."""
    reason: str
    case: str = ""
    """Glob over ids of cases; for `inspect`, over ids of modules."""
    kernel: str = ""
    """Glob over the name of the kernel's function."""
    output: str = ""
    """Glob that every output that a finding reaches has to match; a finding that reaches no output does not match."""
    source: str = ""
    """Glob over the file of the kernel call or of the reader; a file below `directory` may be given relative to it."""
    directory: str = ""
    """Absolute path of the folder of the configuration file."""
    where: str
    """File of the configuration and number of the entry, for messages."""
    is_asked: bool = False
    """Whether the entry comes from an option of this run. Such an entry is not reported as unused, since the user has
    nothing to remove.
    """

    def concerns(self, case_id: str) -> bool:
        """Returns whether the entry can match a finding of the case with this id."""
        return not self.case or _matches(self.case, case_id)

    def matches(self, case_id: str, finding: Finding) -> bool:
        """Returns whether the entry allows this finding of the case."""
        return (
            finding.rule == self.rule
            and self.concerns(case_id)
            and (not self.kernel or _matches(self.kernel, finding.kernel))
            and (not self.output or self._matches_outputs(finding))
            and (not self.source or self._matches_source(finding))
        )

    def _matches_outputs(self, finding: Finding) -> bool:
        return bool(finding.outputs) and all(_matches(self.output, name) for name in finding.outputs)

    def _matches_source(self, finding: Finding) -> bool:
        here = self.directory.rstrip(os.sep) + os.sep
        files = [place.file for place in list_places(finding)]
        return any(_matches(self.source, file.removeprefix(here)) or _matches(self.source, file) for file in files)


def list_places(finding: Finding) -> tuple[SourceLine, ...]:
    """Returns the source lines at which a comment can allow the finding.

    These are the line of the finding and the line of the wrong reader. A finding about a kernel call in a backward pass
    has no reader; the second line is then that of the forward call.
    """
    places = [finding.source]
    if finding.reader is not None:
        places.append(finding.reader.line)
    elif finding.call is not None and finding.call.in_backward:
        places += finding.call.callers[:1]
    return tuple(dict.fromkeys(place for place in places if place is not None))


def _matches(glob: str, text: str) -> bool:
    return bool(text) and compile_glob(glob).fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenScope:
    """The cases and files that a run has checked completely.

    By default there are none, so that no suppression is called unused.
    """

    everything: bool = False
    """Whether the run had all cases of the project."""
    ids: frozenset[str] = frozenset()
    """Ids of the cases that were in the run."""
    files: Mapping[str, tuple[CaseReport, ...]] = field(default_factory=dict[str, tuple[CaseReport, ...]])
    """Maps each file to the reports of its cases. Only files all of whose cases were in the run are listed."""


def compute_scope(
    selectors: Sequence[Selector],
    directory: Path,
    cases: Sequence[tuple[Source, CaseReport]],
    *,
    targets: Sequence[str],
    usual_targets: Sequence[str],
) -> SeenScope:
    """Returns the cases and files that a run has checked completely. Must not be called for an interrupted run.

    directory: folder that relative selectors start from. usual_targets: targets that the project is checked for by default;
    a run that leaves out one of them has checked nothing completely.
    """
    if not set(usual_targets) <= set(targets):
        return SeenScope()
    whole = {source for one in parse_selectors(selectors, directory) if one.pattern == "*" for source in one.sources}
    files: dict[str, tuple[CaseReport, ...]] = {}
    for source, report in cases:
        if source in whole and source.file:
            files[source.file] = (*files.get(source.file, ()), report)
    return SeenScope(everything=not selectors, ids=frozenset(report.id for _, report in cases), files=files)


_COMMENT = re.compile(r"#\s*ligerdiag:\s*allow\b(?P<rest>.*)")
_WORD = re.compile(r"\s*(?P<word>[A-Za-z][\w-]*)\s*(?P<comma>,?)")
_ID = re.compile(r"LD\d+", re.IGNORECASE)
_NO_CODE = frozenset(
    {
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.COMMENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowComment:
    line: int
    """Number of the line with the comment, counted from 1."""
    allows: int
    """Number of the line whose findings the comment allows, counted from 1."""
    rules: tuple[str, ...]
    """Ids of the rules that the comment allows."""
    unknown: tuple[str, ...]
    """Words that name no rule, though the comment should name a rule there."""
    reason: str
    """The reason that the comment gives; a comment that gives no reason allows nothing."""


def load_comments(file: str, roots: Sequence[str]) -> tuple[AllowComment, ...]:
    """Returns the comments `# ligerdiag: allow ...` of a file, in their order.

    Empty if `read_source` must not read the file. roots: real paths of the user's folders.
    """
    code = read_source(file, roots)
    return () if code is None else parse_comments(code)


def parse_comments(code: bytes) -> tuple[AllowComment, ...]:
    """Returns the comments `# ligerdiag: allow ...` of a Python source, in their order.

    Empty if the source is not valid Python.
    """
    if b"ligerdiag:" not in code:
        return ()
    try:
        tokens = list(tokenize.tokenize(io.BytesIO(code).readline))
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError):
        return ()
    busy = {line for t in tokens if t.type not in _NO_CODE for line in range(t.start[0], t.end[0] + 1)}
    alone = {t.start[0] for t in tokens if t.type == tokenize.COMMENT} - busy
    found: list[AllowComment] = []
    for token in tokens:
        match = _COMMENT.search(token.string) if token.type == tokenize.COMMENT else None
        if match is None:
            continue
        line = allows = token.start[0]
        while allows in alone:
            allows += 1
        rules, unknown, reason = _parse_rest(match["rest"])
        found.append(AllowComment(line=line, allows=allows, rules=rules, unknown=unknown, reason=reason))
    return tuple(found)


def _parse_rest(rest: str) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Returns (ids of rules, words that name no rule, reason) from the text after `allow` in a comment."""
    text = re.split(r"\s#\s", rest, maxsplit=1)[0]
    rules: list[str] = []
    unknown: list[str] = []
    more = True
    while more and (word := _WORD.match(text)) is not None:
        rule = _find_rule(word["word"])
        if rule:
            rules.append(rule)
        elif _ID.fullmatch(word["word"]) or not (rules or unknown):
            unknown.append(word["word"])
        else:
            break  # the reason, after a comma
        text, more = text[word.end() :], bool(word["comma"])
    reason = text.strip(" \t:;,.-–—()")
    return tuple(dict.fromkeys(rules)), tuple(unknown), reason if any(c.isalnum() for c in reason) else ""


def _find_rule(word: str) -> str:
    from ligerdiag.rules.registry import get_rule  # imports the analysis, which `--help` does not need

    try:
        return get_rule(word).id
    except InputError:
        return ""


@dataclass(slots=True)
class Suppressions:
    """The suppressions of a run, and which of them have allowed a finding.

    They are the entries of the configuration, and the comments of the files that were read so far.
    """

    entries: Sequence[ConfigEntry] = ()
    foreign: Sequence[str] = ()
    """Real paths of the folders that came with the inspected dump; comments in their files allow nothing."""
    known: KnownFindings = field(default_factory=KnownFindings)
    """The findings that the project knows, which are allowed if nothing else allows them."""
    _comments: dict[str, tuple[AllowComment, ...]] = field(default_factory=dict[str, tuple[AllowComment, ...]])
    """Maps the real path of each file that was read to its comments that allow findings."""
    _used_entries: set[int] = field(default_factory=set[int])
    _used_comments: set[tuple[str, int, str]] = field(default_factory=set[tuple[str, int, str]])
    """(real path of the file, line of the comment, rule id) of each comment that allowed a finding."""

    def apply(
        self, case_id: str, target: str, findings: Sequence[Finding], source_roots: Sequence[str] = ()
    ) -> tuple[Finding, ...]:
        """Returns the findings of one case on one target, with `suppressed` set in each allowed finding.

        A finding is allowed if it is known, or if a comment or an entry of the configuration matches it.
        source_roots: real paths of the user's own folders.
        """
        return tuple(
            replace(
                finding,
                suppressed=self._find(case_id, finding, source_roots) or self.known.allow(case_id, target, finding),
            )
            for finding in findings
        )

    def list_unused(self, cases: Sequence[CaseReport], scope: SeenScope) -> tuple[UnusedSuppression, ...]:
        """Returns the suppressions that allowed no finding, and those that give no reason.

        The comments come first, sorted by file and line, then the entries of the configuration.
        scope: the cases and files that the run has checked completely.
        """
        for file in scope.files:
            self._load(file, (os.path.dirname(os.path.realpath(file)),))
        return (
            *(
                one
                for file in sorted(self._comments)
                for comment in self._comments[file]
                for one in self._judge_comment(file, comment, cases, scope)
            ),
            *self._list_unused_entries(cases, scope),
        )

    def _find(self, case_id: str, finding: Finding, source_roots: Sequence[str]) -> Suppression | None:
        found: list[Suppression] = []
        for place in list_places(finding):
            if place.line < 1:
                continue
            file, comments = self._load(place.file, source_roots)
            for comment in comments:
                if comment.allows == place.line and comment.reason and finding.rule in comment.rules:
                    self._used_comments.add((file, comment.line, finding.rule))
                    where = compute_place(SourceLine(file=place.file, line=comment.line))
                    found.append(Suppression(kind=SuppressionKind.IN_CODE, reason=comment.reason, where=where))
        for number, entry in enumerate(self.entries):
            if entry.matches(case_id, finding):
                self._used_entries.add(number)
                found.append(Suppression(kind=SuppressionKind.CONFIG, reason=entry.reason, where=entry.where))
        return found[0] if found else None

    def _load(self, file: str, source_roots: Sequence[str]) -> tuple[str, tuple[AllowComment, ...]]:
        """Returns the real path of a file, and its comments that allow findings. Reads each file once, and none that
        came with the inspected dump.
        """
        try:
            path = os.path.realpath(file)
        except (OSError, ValueError):
            return file, ()
        if not is_below(path, source_roots) or is_below(path, self.foreign):
            return path, ()
        if path not in self._comments:
            self._comments[path] = load_comments(path, source_roots)
        return path, self._comments[path]

    def _judge_comment(
        self, file: str, comment: AllowComment, cases: Sequence[CaseReport], scope: SeenScope
    ) -> Iterator[UnusedSuppression]:
        about = next((found for own, found in scope.files.items() if os.path.realpath(own) == file), None)
        if about is None and scope.everything:
            about = cases

        def report(rule: str, message: str) -> UnusedSuppression:
            return UnusedSuppression(
                kind=SuppressionKind.IN_CODE,
                rule=rule,
                reason=comment.reason,
                where=compute_place(SourceLine(file=file, line=comment.line)),
                message=message,
            )

        for word in comment.unknown:
            yield report(word, f"names no rule: write for example {_render_example('LD003')}")
        if not comment.rules and not comment.unknown:
            yield report("", f"names no rule: write for example {_render_example('LD003')}")
        for rule in comment.rules:
            if not comment.reason:
                yield report(rule, f"allows nothing without a reason: write {_render_example(rule)}")
            elif (file, comment.line, rule) not in self._used_comments and about and _are_analysed(about, rule):
                yield report(rule, f"is not used: no finding of {rule} at line {comment.allows}")

    def _list_unused_entries(self, cases: Sequence[CaseReport], scope: SeenScope) -> Iterator[UnusedSuppression]:
        for number, entry in enumerate(self.entries):
            about = [case for case in cases if entry.concerns(case.id)]
            seen = scope.everything or entry.case in scope.ids
            if entry.is_asked or number in self._used_entries:
                continue
            if not about or not seen or not _are_analysed(about, entry.rule):
                continue
            yield UnusedSuppression(
                kind=SuppressionKind.CONFIG,
                rule=entry.rule,
                reason=entry.reason,
                where=entry.where,
                message=f"is not used: no finding of {entry.rule} matches it in {_count(about)}",
            )


def _are_analysed(cases: Sequence[CaseReport], rule: str) -> bool:
    """Returns whether each of these cases was analysed completely, so that the run would have seen a finding of the
    rule.
    """
    return not any(
        case.status is Status.ERROR
        or case.coverage.not_covered
        or Verdict.UNKNOWN in case.outputs.values()
        or rule in _list_undecided_rules(case)
        for case in cases
    )


def _list_undecided_rules(case: CaseReport) -> frozenset[str]:
    from ligerdiag.rules.registry import find_undecided_rules

    return find_undecided_rules(
        replayed=case.replay is not None and case.replay.state is ReplayState.DONE,
        ran=case.device is not None and not case.device.error,
    )


def _render_example(rule: str) -> str:
    return f"`# ligerdiag: allow {rule} why it is right all the same`"


def _count(cases: Sequence[CaseReport]) -> str:
    number = len({case.id for case in cases})
    return f"`{cases[0].id}`" if number == 1 else f"{number} cases"
