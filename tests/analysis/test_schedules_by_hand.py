"""Calls that are missing, calls that the program lacks, and the slices that a kernel overwrites, in schedules by hand."""

from dataclasses import replace

import pytest

from ligerdiag.analysis.context import compute_context
from ligerdiag.analysis.evaluation.carriers import compute_carriers
from ligerdiag.analysis.provenance import Retagged
from ligerdiag.analysis.write_correspondence import DroppedBy, TracedKernel
from ligerdiag.effects.access import Access
from ligerdiag.hlo.parse import parse_hlo
from tests.analysis.by_hand import effects_of
from tests.analysis.pair_files import judge_pair, load_pairs, read_pair


def test_calls_that_jax_or_xla_dropped_have_vanished() -> None:
    traced = TracedKernel(kernel="k", outputs=0, operands=1, source=None, in_program=False, operand_used_later=False)
    unused = TracedKernel(kernel="u", outputs=1, operands=1, source=None, in_program=False, operand_used_later=False)
    context = judge_pair("call_that_is_gone", traced=(traced, unused))
    assert [(v.kernel, v.dropped_by) for v in context.vanished] == [("k", DroppedBy.JAX), ("double", DroppedBy.XLA)]


@pytest.mark.parametrize(
    ("outputs", "later", "hidden", "reported"),
    [
        (0, False, (), True),  # its author can only want its effect
        (1, True, (), False),  # it overwrites nothing, or declares what it overwrites
        (1, True, (Access.READ_WRITE,), True),
        (1, False, (Access.READ_WRITE,), False),  # nothing reads what it overwrites
        (1, True, (Access.UNKNOWN,), True),
    ],
)
def test_a_missing_call_matters_if_it_has_no_outputs_or_its_write_is_read(
    outputs: int, later: bool, hidden: tuple[Access, ...], reported: bool
) -> None:
    traced = TracedKernel(
        kernel="k", outputs=outputs, operands=1, source=None, in_program=False, operand_used_later=later, hidden=hidden
    )
    vanished = judge_pair("reader_and_kernel", "the kernel first", traced=(traced,)).vanished
    assert [call.kernel for call in vanished] == (["k"] if reported else [])
    assert [call.unknown for call in vanished] == ([Access.UNKNOWN in hidden] if reported else [])


@pytest.mark.parametrize(("name", "label", "calls"), [("kernel_that_only_reads", "", 1), ("declared_write", "", 1)])
def test_a_call_that_only_reads_and_a_declared_write_are_not_hidden_writes(name: str, label: str, calls: int) -> None:
    context = judge_pair(name, label)
    assert context.writes == ()
    assert len(context.calls) == calls


def test_a_call_that_the_program_lacks_is_noted() -> None:
    context = judge_pair("call_that_the_program_lacks")
    assert any("stray_ld77" in note for note in context.matching.notes)


def test_a_call_that_the_program_lacks_is_a_write_of_the_schedule() -> None:
    """Here the tags are reconstructed, so that ids of one module mean nothing in the other."""
    program, schedule = read_pair(load_pairs("call_that_the_program_lacks")[""])
    written, (optimized, buffers) = parse_hlo(program)[0], parse_hlo(schedule)
    assert buffers is not None
    tags = Retagged(program=written, optimized=replace(optimized, tags={}))
    context = compute_context(
        program=tags.program,
        optimized=tags.optimized,
        buffers=buffers,
        effects_of=effects_of,
        output_names=("sums", "y"),
        traced_calls=(),
        retagged=tags,
    )
    assert [write.unknown for write in context.writes] == [False, True]
    for write in context.writes:
        assert write.call in [i for c in write.module.computations.values() for i in c.instructions]
    assert compute_carriers(context.writes[1:]).paths == {}


def test_a_call_without_a_tag_is_not_missing() -> None:
    assert judge_pair("call_without_a_tag").matching.missing == ()


def test_a_kernel_inside_a_fusion_overwrites_a_part_of_the_fusions_operand() -> None:
    context = judge_pair("kernel_in_a_fusion_on_a_part")
    (write,) = context.actual.writes
    assert write.partial
    names = {one.id: one.name for one in context.optimized.instructions}
    found = {names[i] for i, made in context.buffers.definitions.items() for _, n in made if n in write.slices}
    assert found == {"h_ld1"}
