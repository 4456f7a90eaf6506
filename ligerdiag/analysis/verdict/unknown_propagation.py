"""What cannot be told makes outputs unknown: see `ambiguities` for what that is.

An output is unknown for a hidden write W when it depends on an ambiguity about W, whatever else W does to it. Reads that
are blamed for such an output are not blamed for it any more. Nothing else is taken back: what another write does to the same
output stands.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ligerdiag.analysis.ambiguities import Ambiguities, Ambiguity, Reason
from ligerdiag.analysis.verdict.blame import Blamed, ReadFinding
from ligerdiag.analysis.verdict.comparison import Cause, OutputVerdict, find_worst
from ligerdiag.findings import Verdict


def propagate(found: Blamed, ambiguities: Ambiguities) -> Blamed:
    """The outputs' verdicts and the readers behind them, without what cannot be told."""
    unclear = {(name, one.write) for name, about in ambiguities.items() for one in about}
    if not unclear:
        return found
    return Blamed(
        {name: _make_unknown(name, output, unclear) for name, output in found.outputs.items()},
        _keep_certain(found.stale, unclear),
        _keep_certain(found.clobbered, unclear),
    )


def add_crowded(ambiguities: Ambiguities, crowded: Mapping[str, set[int]]) -> Ambiguities:
    """Also what the search has given up."""
    return {
        name: ambiguities.get(name, frozenset())
        | {Ambiguity(write, Reason.TOO_MANY, 0) for write in crowded.get(name, ())}
        for name in (*ambiguities, *[name for name in crowded if name not in ambiguities])
    }


def _keep_certain(reads: Iterable[ReadFinding], unclear: set[tuple[str, int]]) -> tuple[ReadFinding, ...]:
    """Reads with the outputs that they surely reach; those that surely reach none are left out."""
    settled = [
        replace(read, outputs=tuple([name for name in read.outputs if (name, read.write.index) not in unclear]))
        for read in reads
    ]
    return tuple([read for read in settled if read.outputs])


def _make_unknown(name: str, output: OutputVerdict, unclear: set[tuple[str, int]]) -> OutputVerdict:
    kept = tuple([cause for cause in output.causes if (name, cause.write) not in unclear])
    unknown = tuple([Cause(write, Verdict.UNKNOWN) for one, write in sorted(unclear) if one == name])
    causes = (*kept, *unknown)
    return OutputVerdict(find_worst(cause.verdict for cause in causes), causes)
