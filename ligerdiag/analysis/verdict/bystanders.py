"""Bystanders: kernels that a wrong value depends on, and whose bytes nobody reads wrongly.

A kernel that overwrites an operand has computed what it leaves there from operands of its own, and these from what other
kernels left in theirs. So a reader that sees one kernel's bytes where it should see the original (or does not see them where
it should) sees (or misses) the others' work with them. All of these hidden writes are in the one dependence set and not in
the other; guilty is the kernel whose bytes it reads. Take an optimizer that overwrites a weight too early: what it wrote was
computed from a gradient, that from what the loss kernel left in the logits, and the reader of the weight has never seen the
logits.

Both programs are evaluated once more, with sets that say whose bytes a value is (`labels`, (5)), and compared again.
  (1) A read is guilty if its operation is wrong about the write by these sets, too.
  (2) A write is guilty of an output if the output is wrong about it by these sets, or a guilty read about it reaches it.
  (3) An output of which something is guilty keeps the guilty writes and reads alone. One of which nothing is keeps all.
No output becomes better: what is taken back is a name.
"""

from collections.abc import Mapping
from dataclasses import replace

from ligerdiag.analysis.evaluations import EvaluatedPair, Evaluations
from ligerdiag.analysis.verdict.blame import Blame, Blamed, ReadFinding
from ligerdiag.analysis.verdict.comparison import Cause, Comparison, OutputVerdict, find_worst
from ligerdiag.analysis.verdict.first_divergence import Differing, find_differing, find_wrong_edges
from ligerdiag.analysis.verdict.one_value import find_joined
from ligerdiag.analysis.verdict.operands import Operands
from ligerdiag.hlo.module import TagPath
from ligerdiag.model.findings import Verdict

_WRONG = frozenset({Verdict.STALE, Verdict.CLOBBERED})

type _Wrong = tuple[TagPath, int, int, Verdict]
"""Operation, id of the instruction, HiddenWrite index, and the way in which it is wrong about that."""


def acquit(found: Blamed, *, pair: EvaluatedPair, run: Evaluations, comparison: Comparison) -> Blamed:
    """Takes back, by (1) to (3), the writes and reads that outputs are not wrong by."""
    several = [name for name, output in found.outputs.items() if len(_list_wrong(output)) > 1]
    if not several:
        return found
    bytes_of, wrong, beside = _compare_bytes(found, pair, run, comparison)
    guilty: dict[str, set[int]] = {
        name: set(_list_wrong(bytes_of[name])) | set(_list_wrong(beside[name])) for name in several
    }
    is_guilty: dict[tuple[Verdict, int], bool] = {}
    for verdict, reads in ((Verdict.STALE, found.stale), (Verdict.CLOBBERED, found.clobbered)):
        for number, read in enumerate(reads):
            is_guilty[verdict, number] = _name(read, verdict) in wrong
            for name in read.outputs if is_guilty[verdict, number] else ():
                if name in guilty:
                    guilty[name].add(read.write.index)
    settled = {name for name in several if not guilty[name].isdisjoint(_list_wrong(found.outputs[name]))}

    def keep(verdict: Verdict, reads: tuple[ReadFinding, ...]) -> tuple[ReadFinding, ...]:
        left = [
            read
            if is_guilty[verdict, number]
            else replace(read, outputs=tuple([name for name in read.outputs if name not in settled]))
            for number, read in enumerate(reads)
        ]
        return tuple([read for read in left if read.outputs])

    return replace(
        found,
        outputs={
            name: _keep(output, guilty[name]) if name in settled else output for name, output in found.outputs.items()
        },
        stale=keep(Verdict.STALE, found.stale),
        clobbered=keep(Verdict.CLOBBERED, found.clobbered),
    )


def _compare_bytes(
    found: Blamed, pair: EvaluatedPair, run: Evaluations, comparison: Comparison
) -> tuple[Mapping[str, OutputVerdict], frozenset[_Wrong], Mapping[str, OutputVerdict]]:
    """Returns the outputs' verdicts by whose bytes they are, the operations that are wrong by that, and the outputs that
    are wrong by (1) to (3) of `blame`."""
    direct = replace(run, direct=True)
    intended = direct.run_intended()
    wanted = frozenset(path for path, tagged in intended.tagged.items() if tagged.labels)
    actual = direct.run_actual(wanted)
    known = Operands(intended, actual, run)
    differing = find_differing(intended, actual, comparison)
    if run.retagged is None and not run.folded:
        differing += (*find_wrong_edges(known, comparison), *find_joined(known, comparison))
    outputs = {
        name: comparison.compare(meant, seen)
        for name, meant, seen in zip(found.outputs, intended.outputs, actual.outputs, strict=False)
    }
    outputs = {name: outputs.get(name, _RIGHT) for name in found.outputs}
    blame = Blame(
        pair=replace(pair, intended=intended, actual=actual),
        differing=(),
        comparison=comparison,
        run=run,
        known=known,
        instructions={},
    )
    return outputs, frozenset(_list_wrong_about(differing, comparison)), blame.find_beside_operations(outputs)


_RIGHT = OutputVerdict(Verdict.FRESH, ())


def _list_wrong_about(differing: tuple[Differing, ...], comparison: Comparison) -> list[_Wrong]:
    return [
        (one.path, one.sighting.instruction.id, write, verdict)
        for one in differing
        for verdict in _WRONG
        for write in comparison.space.writes_of(one.wrong(verdict))
    ]


def _name(read: ReadFinding, verdict: Verdict) -> _Wrong | None:
    if read.wrong is None:
        return None
    return read.wrong.path, read.wrong.sighting.instruction.id, read.write.index, verdict


def _list_wrong(output: OutputVerdict) -> set[int]:
    return {cause.write for cause in output.causes if cause.verdict in _WRONG}


def _keep(output: OutputVerdict, guilty: set[int]) -> OutputVerdict:
    causes: tuple[Cause, ...] = tuple([c for c in output.causes if c.verdict not in _WRONG or c.write in guilty])
    return OutputVerdict(find_worst(cause.verdict for cause in causes), causes)
