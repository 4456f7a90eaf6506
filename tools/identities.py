"""Measures how the three witnesses for the identity of a value agree: `python -m tools.identities --seeds 710000 80`.

Compiles random programs and cases twice, plainly and with XLA's lineage, compares the two schedules, and asks
`ligerdiag.provenance` for the identity of each array of the schedule with lineage. Prints Markdown tables: how many programs
compile, how many arrays have a tag, lineage and structure, and for each pair of witnesses that name different values, by
opcode, the probable pass of XLA. `--cache-dir` keeps the compiles.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ligerdiag.analysis.provenance import forget_entered, retag_shared_computations
from ligerdiag.artifacts.artifact import RECORDED, Artifact
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import CompileResult, compile_cases, discover_cases
from ligerdiag.hlo.dataflow import list_running
from ligerdiag.hlo.module import HloInstruction, HloModule
from ligerdiag.hlo.opcodes import Trait, having
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.hlo.shape import iterate_leaves
from ligerdiag.model.jobs import Variation
from ligerdiag.provenance.identification import Identification
from ligerdiag.provenance.identity import Evidence, EvidenceKind, Maker, ValueIdentity
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.workers.pool import Pool
from tools.fuzz.drawing import draw_program
from tools.fuzz.source import render_case_file
from tools.same_schedules import find_difference

_NAMES = frozenset({"tuple", "get-tuple-element"})
_CONTROL_FLOW = having(Trait.CONTROL_FLOW)
_EXAMPLES = 2
"""Examples of each kind of difference that are printed."""


@dataclass(slots=True, eq=False)
class Tally:
    """The counts of a group of programs."""

    programs: Counter[str] = field(default_factory=Counter[str])
    arrays: Counter[str] = field(default_factory=Counter[str])
    differences: Counter[tuple[str, str, str]] = field(default_factory=Counter[tuple[str, str, str]])
    """By the pair of witnesses, the opcode and the explanation."""
    examples: dict[tuple[str, str], list[str]] = field(default_factory=dict[tuple[str, str], list[str]])
    notes: list[str] = field(default_factory=list[str])


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("selectors", nargs="*", help="cases, as `ligerdiag check` takes them")
    parser.add_argument("--seeds", nargs=2, type=int, action="append", default=[], metavar=("FIRST", "COUNT"))
    parser.add_argument("--cache-dir", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        folder: Path = options.cache_dir or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        groups = {"cases": list(options.selectors)} if options.selectors else {}
        for first, count in options.seeds:
            path = folder / f"programs_{first}.py"
            programs = [draw_program(seed) for seed in range(first, first + count)]
            path.write_text(render_case_file(programs, "Random programs.", reference=False), encoding="utf-8")
            groups[f"{count} random programs from seed {first}"] = [str(path)]
        with Pool(cache=Cache(folder / "cache"), jobs=options.jobs) as pool:
            tallies = {name: measure(selectors, pool) for name, selectors in groups.items()}
    sys.stdout.write("\n".join(render_tallies(tallies)) + "\n")
    return 0


def measure(selectors: Sequence[str], pool: Pool) -> Tally:
    """Compiles the selected cases twice, and counts."""
    tally = Tally()
    cases = discover_cases(selectors, pool=pool, directory=Path.cwd())
    target = load_target("h100")
    plain, recorded = (
        {result.case.id: result for result in compile_cases(cases, [target], pool=pool, variation=variation)}
        for variation in (Variation(), Variation(lineage=True))
    )
    for name in plain:
        add_program(tally, name, plain[name], recorded[name])
    return tally


def add_program(tally: Tally, name: str, plain: CompileResult, recorded: CompileResult) -> None:
    """Adds one program to the counts."""
    tally.programs["programs"] += 1
    if plain.artifact is None or recorded.artifact is None:
        tally.programs["do not compile"] += 1
        tally.notes.append(f"`{name}` does not compile: {plain.error or recorded.error}")
        return
    said = recorded.artifact.provenance.lineage
    if said != RECORDED:
        tally.programs["compile only without lineage"] += 1
        tally.notes.append(f"`{name}`: {said or 'XLA aborts with its lineage'}")
        return
    difference = find_difference(load_hlo(plain.artifact.optimized), load_hlo(recorded.artifact.optimized))
    tally.programs["another schedule with lineage" if difference else "the same schedule"] += 1
    if difference:
        tally.notes.append(f"`{name}` has another schedule with lineage: {difference}")
    identification = load_identification(recorded.artifact)
    for instruction in list_values(identification.optimized):
        for index in iterate_leaves(instruction.shape):
            add_array(tally, name, identification, instruction, identification.identify(instruction, index))


def load_identification(artifact: Artifact) -> Identification:
    """Returns the identification for an artifact, with the corrections of tags that the analysis makes."""
    program, optimized = load_hlo(artifact.program)[0], load_hlo(artifact.optimized)[0]
    optimized = retag_shared_computations(program, forget_entered(program, optimized))
    return Identification(program, optimized)


def list_values(optimized: HloModule) -> Iterator[HloInstruction]:
    """Yields the instructions whose results are arrays of the program's data flow: those of scheduled computations and of
    fusions, without tuples and without other names of an array.
    """
    running = list_running(optimized)
    fused = [
        optimized.computations[callee]
        for computation in running
        for one in computation.instructions
        if one.opcode == "fusion"
        for callee in one.called_computations
    ]
    for computation in (*running, *dict.fromkeys(fused)):
        for one in computation.instructions:
            if one.opcode not in _NAMES and not (computation.is_fusion and one.opcode == "parameter"):
                yield one


def add_array(
    tally: Tally, name: str, identification: Identification, instruction: HloInstruction, found: ValueIdentity
) -> None:
    """Adds the identity of one array to the counts."""
    arrays = tally.arrays
    by_kind: dict[EvidenceKind, Evidence] = {}
    for one in found.evidence:
        if one.values:
            by_kind.setdefault(one.kind, one)
    arrays["all"] += 1
    arrays["identified"] += found.is_known
    arrays["contradicted"] += found.is_contradicted
    for maker in Maker:
        arrays[f"made by {maker}"] += found.maker is maker
    for kind in EvidenceKind:
        arrays[kind.value] += kind in by_kind
    if set(by_kind) == {EvidenceKind.STRUCTURE}:
        arrays["structure alone"] += 1
    if EvidenceKind.TAG in by_kind and not by_kind[EvidenceKind.TAG].is_firm and len(by_kind) == 1:
        arrays["a copied tag alone"] += 1
    kinds = list(by_kind)
    for number, kind in enumerate(kinds):
        for other in kinds[number + 1 :]:
            one, two = sorted((by_kind[kind], by_kind[other]), key=lambda evidence: evidence.kind)
            pair = f"{one.kind} and {two.kind}"
            differs = one.near.isdisjoint(two.near)
            arrays[f"{pair} {'differ' if differs else 'agree'}"] += 1
            if differs:
                root = find_root(identification.optimized, instruction)
                explanation = explain(identification, root, one, two)
                tally.differences[pair, root.opcode, explanation] += 1
                examples = tally.examples.setdefault((pair, explanation), [])
                if len(examples) < _EXAMPLES:
                    examples.append(f"`%{instruction.name}` of `{name}`: {one.said}, {two.said}")


def explain(identification: Identification, instruction: HloInstruction, one: Evidence, two: Evidence) -> str:
    """Returns what probably made two witnesses name different values."""
    by_kind = {evidence.kind: evidence for evidence in (one, two)}
    tag, lineage = by_kind.get(EvidenceKind.TAG), by_kind.get(EvidenceKind.LINEAGE)
    if tag is not None:
        operation = identification.find_operation(min(tag.values))
        if operation is not None and operation.opcode == "dot" and instruction.opcode == "slice":
            return "a slice of a joined product (dot-merger)"
    if lineage is not None and not lineage.is_firm:
        return "lineage names a broadcast or reshape of the array that a pass removed (algsimp, reshape-mover)"
    if tag is not None and instruction.opcode in _CONTROL_FLOW:
        return "the element has another place in the loop's state (while-loop-simplifier, invariant code motion)"
    if tag is not None and not tag.is_firm:
        return "a pass made the instruction and copied the tag (layout normalization, algsimp, rewriters)"
    return "both are firm: XLA knows that the two values are equal (algsimp, constant folding)"


def find_root(module: HloModule, instruction: HloInstruction) -> HloInstruction:
    """Returns the instruction that computes a fusion's result; any other instruction itself."""
    while instruction.opcode == "fusion":
        instruction = module.computations[instruction.called_computations[0]].root
    return instruction


def render_tallies(tallies: dict[str, Tally]) -> Iterator[str]:
    """Yields the lines of the tables."""
    names = list(tallies)
    for title, read in (("programs", lambda tally: tally.programs), ("arrays", lambda tally: tally.arrays)):
        rows = list(dict.fromkeys(row for tally in tallies.values() for row in read(tally)))
        yield f"| {title} | {' | '.join(names)} |"
        yield f"|---|{'---:|' * len(names)}"
        for row in rows:
            yield f"| {row} | {' | '.join(f'{read(tallies[name])[row]:,}' for name in names)} |"
        yield ""
    yield "| witnesses that differ | opcode | arrays | probable pass |"
    yield "|---|---|---:|---|"
    total = sum((tally.differences for tally in tallies.values()), Counter[tuple[str, str, str]]())
    for (pair, opcode, explanation), count in total.most_common():
        yield f"| {pair} | {opcode} | {count:,} | {explanation} |"
    yield ""
    shown: set[tuple[str, str]] = set()
    for tally in tallies.values():
        for (pair, explanation), examples in tally.examples.items():
            if (pair, explanation) not in shown:
                shown.add((pair, explanation))
                yield f"- {pair}, {explanation}: {'; '.join(examples)}"
    yield ""
    for tally in tallies.values():
        yield from (f"- {note}" for note in tally.notes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
