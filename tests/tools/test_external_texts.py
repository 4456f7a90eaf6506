"""Results of the tools on HLO texts from outside of this repository."""

from pathlib import Path

import pytest

from ligerdiag.hlo.xla_pb2 import HloModuleProto
from tests.hlo.building import Builder, array, tuple_of
from tools.inspect_texts import BUG, run_batch
from tools.kernel_in_texts import Answer, judge
from tools.parameter_reads import Reads, ReadsFinder

IDLE = "HloModule m\n\nENTRY e {\n  ROOT p = f32[] parameter(0)\n}\n"


def test_texts_are_counted_by_outcome(tmp_path: Path) -> None:
    texts = {"idle": IDLE, "two": IDLE + IDLE, "other": "int main() {\n  return 0;\n}\n" * 9}
    for name, text in texts.items():
        (tmp_path / f"{name}.hlo").write_text(text, encoding="utf-8")
    paths = [tmp_path / f"{name}.hlo" for name in (*texts, "gone")]
    tally = run_batch(paths, tmp_path / "cache")
    assert [path for _, _, path, _ in tally.costs] == paths
    assert tally.endings["no custom calls"] == 3
    assert sum(count for ending, count in tally.endings.items() if ending.startswith("could not analyse")) == 1
    assert sum(count for ending, count in tally.endings.items() if ending.startswith("input error")) == 1
    assert not any(ending.startswith(BUG) for ending in tally.endings)


def write_three(opcode: str) -> HloModuleProto:
    """Returns a module with three outputs: the results of `opcode` on x and on y, and x itself, which the kernel
    overwrites.
    """
    builder = Builder()
    entry = builder.computation("entry")
    given = [builder.add(entry, "parameter", parameter_number=number) for number in (0, 1)]
    results = [builder.add(entry, opcode, [one]) for one in given]
    builder.add(entry, "tuple", [*results, given[0]], shape=tuple_of(array(4), array(4), array(4)))
    return builder.proto.hlo_module


def test_the_places_of_a_kernel_in_a_text_decide_the_verdicts(tmp_path: Path) -> None:
    answers = list(judge(write_three("exponential"), tmp_path))
    assert not any(answer.is_wrong() for answer in answers)
    found = {(one.program, one.schedule): one.verdict for one in answers if one.reads.readers}
    assert found == {
        (0, 0): "latent", (0, 1): "stale", (0, 3): "stale",
        (1, 0): "clobbered", (1, 1): "latent", (1, 3): "latent",
        (3, 0): "clobbered", (3, 1): "latent", (3, 3): "latent",
    }  # fmt: skip
    assert {one.verdict for one in answers if not one.reads.readers} == {"fresh"}
    assert [one.reads.own for one in answers] == [False, False, True] * 9


@pytest.mark.parametrize("opcode", ["bitcast", "all-reduce-start"])
def test_no_kernel_is_added_where_another_value_may_share_the_buffer(tmp_path: Path, opcode: str) -> None:
    assert list(judge(write_three(opcode), tmp_path)) == []


def test_a_result_of_a_fusion_depends_only_on_the_operands_it_uses() -> None:
    builder = Builder()
    fused = builder.computation("fused")
    given = [builder.add(fused, "parameter", parameter_number=number) for number in (0, 1)]
    builder.add(
        fused, "tuple", [builder.add(fused, "negate", [given[1]]), given[0]], shape=tuple_of(array(4), array(4))
    )
    entry = builder.computation("entry")
    x, y = (builder.add(entry, "parameter", parameter_number=number) for number in (0, 1))
    late = builder.add(entry, "negate", [y])
    fusion = builder.add(entry, "fusion", [late, x], shape=tuple_of(array(4), array(4)), calls=[fused])
    found = ReadsFinder(builder.proto.hlo_module, y.id).found
    assert found[y.id] == [Reads(own=True)]
    assert found[fusion.id] == [Reads(), Reads(readers=frozenset({0}))]
    assert ReadsFinder(builder.proto.hlo_module, x.id).found[fusion.id] == [Reads(readers=frozenset({1})), Reads()]


READ = Reads(readers=frozenset({1}))
POSSIBLY = Reads(readers=frozenset({1}), certain=False)


@pytest.mark.parametrize(
    ("program", "schedule", "reads", "verdict"),
    [
        (1, 1, READ, "stale"),
        (2, 2, READ, "clobbered"),
        (2, 3, READ, "stale"),
        (0, 2, READ, "clobbered"),
        (0, 2, READ, "latent"),
        (0, 2, POSSIBLY, "clobbered"),
        (2, 0, READ, "stale"),
        (2, 0, READ, "fresh"),
        (0, 2, Reads(), "stale"),
        (0, 0, Reads(), "latent"),
        (0, 2, Reads(own=True), "stale"),
        (2, 0, Reads(), BUG.strip(": ")),
    ],
)
def test_a_verdict_that_contradicts_the_places_is_wrong(
    program: int, schedule: int, reads: Reads, verdict: str
) -> None:
    assert Answer(program, schedule, reads, verdict).is_wrong()


@pytest.mark.parametrize("verdict", ["stale", "fresh", "latent", "unknown"])
def test_an_operation_that_may_leave_the_operand_unread_allows_both(verdict: str) -> None:
    assert not Answer(0, 2, POSSIBLY, verdict).is_wrong()
