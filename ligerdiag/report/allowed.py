"""The effect of suppressions: verdicts do not count if everything that explains them is allowed.

1. An allowed finding stays in the report and has no weight.
2. A stale, clobbered or latent output is allowed when at least one finding of a rule that explains this verdict reaches
   it, and all of these are allowed. A verdict that no finding explains cannot be allowed.
3. On a device, whose own artifact has verdicts and no findings, an output is allowed if it has the verdict that is
   allowed on the described GPU.
4. Unknown stays unknown: an unknown output is never allowed, and a finding that explains an unknown verdict keeps the
   case inconclusive.
"""

from collections.abc import Mapping, Sequence

from ligerdiag.findings import Finding, Verdict
from ligerdiag.hazards.registry import RULES

_EXPLAINS: Mapping[str, Verdict] = {rule.id: rule.explains for rule in RULES if rule.explains is not None}
_NEVER = frozenset({Verdict.FRESH, Verdict.UNKNOWN})


def list_counted(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Returns the findings that are not allowed."""
    return tuple(finding for finding in findings if finding.suppressed is None)


def list_allowed(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Returns the findings that are allowed."""
    return tuple(finding for finding in findings if finding.suppressed is not None)


def compute_allowed_outputs(outputs: Mapping[str, Verdict], findings: Sequence[Finding]) -> Mapping[str, Verdict]:
    """Output name to verdict, of the outputs whose verdict is allowed: see 2."""
    if not list_allowed(findings):
        return {}
    return {name: verdict for name, verdict in outputs.items() if _is_allowed(name, verdict, findings)}


def hides_unknown(findings: Sequence[Finding]) -> bool:
    """Returns whether an allowed finding says that something is unknown: see 4."""
    return any(_EXPLAINS.get(finding.rule) is Verdict.UNKNOWN for finding in list_allowed(findings))


def _is_allowed(name: str, verdict: Verdict, findings: Sequence[Finding]) -> bool:
    reasons = [f for f in findings if name in f.outputs and _EXPLAINS.get(f.rule) is verdict]
    return verdict not in _NEVER and bool(reasons) and all(f.suppressed is not None for f in reasons)
