"""Renders the body of a bug report in Markdown: for the maintainers of XLA, JAX or a kernel, in their own words."""

from ligerdiag.report.issue.issue_body import IssueFacts, ProgramPart, ProgramSource, render_issue
from ligerdiag.report.issue.issue_subject import IssueSubject, find_issue_subject

__all__ = ["IssueFacts", "IssueSubject", "ProgramPart", "ProgramSource", "find_issue_subject", "render_issue"]
