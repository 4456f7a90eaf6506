"""Tags reconstructed from metadata are the tags that the compile worker would have given."""

from dataclasses import replace

from ligerdiag.analysis.provenance import compute_tags, number_operations
from ligerdiag.hlo.module import HloModule, TagPath, parse_tag_path
from ligerdiag.hlo.parse import load_hlo, parse_hlo
from ligerdiag.hlo.xla_pb2 import HloProto
from ligerdiag.model.findings import Verdict
from tests.inspection.conftest import Pair, Pairs


def load_tags(pair: Pair, module: str) -> list[TagPath]:
    """Returns the compile worker's tags of all instructions of one module, in order."""
    tagged, _ = load_hlo(getattr(pair.tagged, module))
    return [parse_tag_path(i.op_name) for c in tagged.computations.values() for i in c.instructions]


def list_opcodes(module: HloModule) -> list[str]:
    return [i.opcode for c in module.computations.values() for i in c.sequence or c.instructions]


def test_tags_do_not_change_the_optimized_module(pairs: Pairs) -> None:
    for case, pair in pairs.items():
        tagged, untagged = (load_hlo(one.optimized)[0] for one in (pair.tagged, pair.untagged))
        assert list_opcodes(tagged) == list_opcodes(untagged), case


def test_numbers_ascend_in_program_order(pairs: Pairs) -> None:
    for case, pair in pairs.items():
        program, _ = pair.load_dump()
        numbers = number_operations(program)
        tags = iter(load_tags(pair, "unoptimized"))
        for computation in program.computations.values():
            dependent: set[int] = set()
            order: list[tuple[int, TagPath]] = []
            for instruction in computation.instructions:
                tag = next(tags)
                if instruction.opcode == "parameter" or any(o.id in dependent for o in instruction.operands):
                    dependent.add(instruction.id)
                    if tag and instruction.id in numbers:
                        order.append((numbers[instruction.id][-1], tag[-1:]))
            assert [tag for _, tag in sorted(order)] == sorted(tag for _, tag in order), (case, computation.name)


def test_an_instruction_gets_the_tag_of_its_operation(pairs: Pairs) -> None:
    found = 0
    for case, pair in pairs.items():
        program, compilation = pair.load_dump()
        retagged = compute_tags(program, compilation.optimized)
        instructions = [i for c in program.computations.values() for i in c.instructions]
        true = {
            retagged.program.find_tag_path(own)[-1]: tag
            for own, tag in zip(
                (i for c in retagged.program.computations.values() for i in c.instructions),
                load_tags(pair, "unoptimized"),
                strict=True,
            )
            if retagged.program.find_tag_path(own)
        }
        assert len(instructions) >= len(true) > 0
        optimized = [i for c in retagged.optimized.computations.values() for i in c.instructions]
        for instruction, tag in zip(optimized, load_tags(pair, "optimized"), strict=True):
            path = retagged.optimized.find_tag_path(instruction)
            if path and path[0] > 0:
                assert tuple(n for number in path for n in true[number]) == tag, (case, instruction.name)
                found += 1
    assert found > 300


def test_without_metadata_no_wrong_output_is_called_right(pairs: Pairs) -> None:
    for case, pair in pairs.items():
        program, compilation = pair.load_dump()
        proto = HloProto()
        proto.ParseFromString(pair.untagged.optimized.read_bytes())
        for computation in proto.hlo_module.computations:
            for instruction in computation.instructions:
                instruction.ClearField("metadata")
        optimized, buffers = parse_hlo(proto.SerializeToString())
        bare = pair.inspect(replace(compilation, program=program, optimized=optimized, buffers=buffers))
        full = pair.inspect(compilation)
        for name, verdict in bare.outputs.items():
            if full.outputs[name] in (Verdict.STALE, Verdict.CLOBBERED):
                assert verdict not in (Verdict.FRESH, Verdict.LATENT), (case, name)
