"""Adds a kernel to HLO texts of others: `python tools/kernel_in_texts.py FOLDER...`; each `.hlo` in a folder is one.

A kernel that overwrites an entry parameter is added to the program, before its first operation, in the middle, or after
the last, and likewise to a schedule that is the program's own order. The possible verdicts are known without any
analysis. An operation that takes the parameter's own bytes is a *reader* of them:
- An output that depends on a reader which the program has after the kernel and the schedule before it is stale.
- An output that depends on a reader which the program has before the kernel and the schedule after it is clobbered.
- Any other output is neither; one that depends on no reader, and is not the parameter, is fresh.
- `unknown` is never wrong. If an operation may leave an operand unread, stale and clobbered are possible, not certain.

The tool omits parameters whose bytes a value computed from them may share, and unscheduled texts with any values that
share bytes: XLA would insert copies before those, and this tool does not. It prints the number of each verdict, and
each text that breaks a rule; these make the exit code 1.
"""

import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from ligerdiag.artifacts.cache import Cache
from ligerdiag.dumps.content import read_content, split_modules
from ligerdiag.dumps.text_worker import Translator
from ligerdiag.effects.declared import DeclaredEffects
from ligerdiag.errors import ArtifactError, LigerdiagError
from ligerdiag.hlo.parse import parse_module
from ligerdiag.hlo.shape import TOKEN, TUPLE
from ligerdiag.hlo.xla_pb2 import HloComputationProto, HloInstructionProto, HloModuleProto, ShapeProto
from ligerdiag.inspection.compilation import InspectionWords, analyse_compilation
from ligerdiag.inspection.coverage import Compilation
from ligerdiag.model.findings import Verdict
from tools.parameter_reads import Reads, ReadsFinder, find_entry, list_operations, list_parameters

TARGET = "touch"
BUG, REFUSED = "bug", "refused"
_SHARES = re.compile("dynamic-update-slice|scatter|while|conditional|call|send|recv|.+-(start|update)")
"""Opcodes whose result may have the bytes of an operand that others read."""
_HANDS_ON = frozenset({"bitcast", "opt-barrier", "domain", "add-dependency"})
"""Opcodes that, in the program, read their operand at once; in a schedule, only when the result is read."""
_NO_ARRAYS = frozenset({TUPLE, TOKEN, 14, 0})
"""Element types of a tuple, a token, an opaque value, and none."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The verdict on one output, for one pair of the kernel's places."""

    program: int
    schedule: int
    reads: Reads
    verdict: str

    @property
    def expected(self) -> Verdict | None:
        """Returns stale or clobbered by the rules above; None if the output is neither."""
        between = range(*sorted((self.program, self.schedule)))
        if not any(reader in between for reader in self.reads.readers):
            return None
        return Verdict.STALE if self.program < self.schedule else Verdict.CLOBBERED

    def is_wrong(self) -> bool:
        """Returns whether the verdict breaks a rule."""
        if self.verdict in (BUG, REFUSED, Verdict.UNKNOWN):
            return self.verdict == BUG
        if self.expected is not None and self.reads.certain:
            return self.verdict != self.expected
        if not self.reads.readers and not self.reads.own:
            return self.verdict != Verdict.FRESH
        return self.verdict not in (Verdict.FRESH, Verdict.LATENT, self.expected)

    def describe(self) -> str:
        """Returns the allowed verdicts and the actual one."""
        if self.verdict in (BUG, REFUSED):
            return self.verdict
        if not self.reads.readers:
            return f"{'the parameter' if self.reads.own else 'no reader'}: {self.verdict}"
        certain = "" if self.reads.certain else "possibly "
        return f"{certain}{self.expected or 'as intended'}: {self.verdict}"


def main() -> int:
    paths = sorted(path for folder in sys.argv[1:] for path in Path(folder).rglob("*.hlo"))
    counts, wrong, left = Counter[str](), list[str](), Counter[str]()
    with tempfile.TemporaryDirectory() as folder, Translator(cache=Cache(Path(folder))) as translator:
        for path in paths:
            try:
                data = split_modules(read_content(path))[0]
                module = HloModuleProto.FromString(translator.translate(data, path.name))
            except ArtifactError:
                left["no HLO text that jaxlib parses"] += 1
                continue
            answers = list(judge(module, Path(folder)))
            left["with a kernel added" if answers else "no parameter to overwrite"] += 1
            for answer in answers:
                counts[answer.describe()] += 1
                if answer.is_wrong():
                    wrong.append(f"{path}: {answer}\n")
    for what, count in (*sorted(counts.items()), *left.most_common()):
        sys.stdout.write(f"{count:6} {what}\n")
    sys.stdout.write("".join(dict.fromkeys(wrong)) + f"{len(wrong)} wrong of {counts.total()}\n")
    return 1 if wrong else 0


def judge(module: HloModuleProto, effects: Path) -> Iterator[Answer]:
    """Yields the verdict on each output for each pair of places; nothing if there is no parameter to overwrite."""
    ordered = order_module(module)
    entry = find_entry(ordered)
    chosen = choose_parameter(ordered)
    if chosen is None:
        return
    reads = ReadsFinder(ordered, chosen.id).found[entry.root_id]
    words = InspectionWords(
        effects_cache=effects,
        declared=(DeclaredEffects(name=TARGET, writes=frozenset({0})),),
        neighbourhoods=False,
        view=False,
    )
    count = len(list_operations(entry))
    for place, turn in product(sorted({0, count // 2, count}), repeat=2):
        program, schedule = add_kernel(ordered, chosen, place), add_kernel(ordered, chosen, turn)
        for one in schedule.computations:
            schedule.schedule.sequences[one.id].instruction_ids.extend(each.id for each in one.instructions)
        try:
            compilation = Compilation(
                name="text", program=parse_module(program), as_written=True, optimized=parse_module(schedule), buffers=None,
                output_names=(),
            )  # fmt: skip
            verdicts = [one.value for one in analyse_compilation(compilation, **words).inspection.outputs.values()]
        except LigerdiagError as error:
            verdicts = [BUG if "are inconsistent" in str(error) else REFUSED] * len(reads)
        for each, verdict in zip(reads, verdicts, strict=True):
            yield Answer(place, turn, each, verdict)


def order_module(module: HloModuleProto) -> HloModuleProto:
    """Returns the module with its operations in the order of its schedule, if any, and the entry's parameters first."""
    changed = HloModuleProto.FromString(module.SerializeToString())
    for one in changed.computations:
        if one.id in module.schedule.sequences:
            turns = {number: turn for turn, number in enumerate(module.schedule.sequences[one.id].instruction_ids)}
            _put(one, sorted(one.instructions, key=lambda each: turns[each.id]))
    entry = find_entry(changed)
    _put(entry, list_parameters(entry) + list_operations(entry))
    return changed


def _put(computation: HloComputationProto, order: list[HloInstructionProto]) -> None:
    kept = [HloInstructionProto.FromString(one.SerializeToString()) for one in order]
    del computation.instructions[:]
    computation.instructions.extend(kept)


def choose_parameter(module: HloModuleProto) -> HloInstructionProto | None:
    """Returns the first array among the entry's parameters whose bytes no other value may share."""
    entry = find_entry(module)
    sharing = {one.id for one in module.computations if any(map(_is_sharing, one.instructions))}
    if module.input_output_alias.entries or (sharing and not module.schedule.sequences):
        return None
    taking = [
        one
        for one in entry.instructions
        if one.opcode in _HANDS_ON or _is_sharing(one) or not sharing.isdisjoint(one.called_computation_ids)
    ]
    for one in list_parameters(entry):
        if one.shape.element_type not in _NO_ARRAYS:
            reads = ReadsFinder(module, one.id).found
            taken = [leaf for other in taking for operand in other.operand_ids for leaf in reads[operand]]
            if not any(leaf.own for leaf in taken):
                return one
    return None


def _is_sharing(one: HloInstructionProto) -> bool:
    return _SHARES.fullmatch(one.opcode) is not None or len(one.output_operand_aliasing) > 0


def add_kernel(module: HloModuleProto, parameter: HloInstructionProto, place: int) -> HloModuleProto:
    """Returns the module, numbered in order and without a schedule, with a kernel before the operation at that place."""
    changed = HloModuleProto.FromString(module.SerializeToString())
    changed.ClearField("schedule")
    entry = find_entry(changed)
    largest = max(one.id for computation in changed.computations for one in computation.instructions)
    kernel = HloInstructionProto(
        name=f"{TARGET}.0", opcode="custom-call", custom_call_target=TARGET, id=largest + 1, operand_ids=[parameter.id],
        shape=ShapeProto(element_type=TUPLE), custom_call_has_side_effect=True,
    )  # fmt: skip
    place += len(list_parameters(entry))
    _put(entry, [*entry.instructions[:place], kernel, *entry.instructions[place:]])
    ids = [one.id for computation in changed.computations for one in computation.instructions]
    numbers = {number: position for position, number in enumerate(ids, start=1)}
    for computation in changed.computations:
        computation.root_id = numbers[computation.root_id]
        for one in computation.instructions:
            one.id = numbers[one.id]
            one.operand_ids[:] = [numbers[number] for number in one.operand_ids]
            one.control_predecessor_ids[:] = [numbers[number] for number in one.control_predecessor_ids]
    return changed


if __name__ == "__main__":
    sys.exit(main())
