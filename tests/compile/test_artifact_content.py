"""The content of an artifact: names, tags, kernel calls, thunks."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.artifacts.cache import get_program
from ligerdiag.compile.compile_service import CompileResult
from ligerdiag.hlo.module import parse_tag_path
from ligerdiag.hlo.parse import load_hlo

PROGRAMS = Path(__file__).parent / "programs"

type Results = dict[str, CompileResult]


def artifact_of(results: Results, case_id: str) -> Artifact:
    artifact = results[case_id].artifact
    assert artifact is not None, results[case_id].error
    return artifact


def op_names(path: Path) -> dict[str, list[str]]:
    """Returns the op_name of each instruction, by computation."""
    module, _ = load_hlo(path)
    return {c.name: [i.op_name for i in c.instructions] for c in module.computations.values()}


def test_outputs_are_named_by_their_paths(doubling: Results) -> None:
    assert artifact_of(doubling, "step").provenance.outputs == ("grads.pair.0", "grads.pair.1", "grads.w", "loss")
    assert artifact_of(doubling, "single").provenance.outputs == ("output",)
    assert artifact_of(doubling, "pair").provenance.outputs == ("0", "1.w")


def test_inputs_are_named_after_the_function_s_parameters(doubling: Results) -> None:
    assert artifact_of(doubling, "step").provenance.inputs == ("x", "w")
    assert artifact_of(doubling, "pair").provenance.inputs == ("x", "rest.0")
    assert artifact_of(doubling, "pair").provenance.parameters == (0, 1)


def test_the_compiled_program_has_every_named_output(doubling: Results) -> None:
    for case_id in ("step", "single", "pair"):
        artifact = artifact_of(doubling, case_id)
        module, buffers = load_hlo(artifact.optimized)
        assert buffers is not None
        root = module.entry.root
        leaves = len(root.operands) if root.opcode == "tuple" else 1
        assert leaves == len(artifact.provenance.outputs)


def test_tags_survive_into_fused_instructions(doubling: Results) -> None:
    artifact = artifact_of(doubling, "step")
    fused = [n for name, names in op_names(artifact.optimized).items() if "fused" in name for n in names]
    tanh = [name for name in fused if "tanh" in name]
    assert tanh
    assert all(parse_tag_path(name) for name in tanh)
    assert all(re.search(r"tanh#ld\d+$", name) for name in tanh)


def test_the_program_as_written_and_xla_s_input_have_the_same_kernel_tag(doubling: Results) -> None:
    artifact = artifact_of(doubling, "step")
    (call,) = artifact.kernel_calls
    for path in (artifact.as_written, artifact.unoptimized):
        tags = {parse_tag_path(name)[-1:] for names in op_names(path).values() for name in names if "triton" in name}
        assert tags == {call.tags}


def test_a_kernel_call_records_its_line_and_whether_it_has_later_readers(doubling: Results) -> None:
    (call,) = artifact_of(doubling, "step").kernel_calls
    source = (PROGRAMS / "doubling.py").read_text().splitlines()
    assert call.kernel == "double_kernel"
    assert call.source.file == str(PROGRAMS / "doubling.py")
    assert "kernel=double_kernel" in source[call.source.line - 1]
    assert call.source.function == "double"
    assert (call.operands, call.outputs) == (1, 1)
    assert call.in_program
    assert call.operand_used_later


@pytest.mark.parametrize("case_id", ["effect", "effect_in_loop"])
def test_a_call_without_outputs_is_recorded_as_not_in_the_program(doubling: Results, case_id: str) -> None:
    artifact = artifact_of(doubling, case_id)
    (negate,) = [call for call in artifact.kernel_calls if call.kernel == "negate_kernel"]
    assert negate.outputs == 0
    assert negate.traced
    assert not negate.in_program
    assert negate.operand_used_later
    assert b"triton" in artifact.unoptimized.read_bytes() or case_id == "effect_in_loop"


def test_the_other_call_of_the_same_program_is_in_it(doubling: Results) -> None:
    calls = {call.kernel: call for call in artifact_of(doubling, "effect").kernel_calls}
    assert calls["double_kernel"].in_program


def test_the_same_program_is_compiled_once(doubling: Results) -> None:
    step, again = (artifact_of(doubling, name) for name in ("step", "again[same-True]"))
    assert (step.provenance.case_id, again.provenance.case_id) == ("step", "again[same-True]")
    assert get_program(step.provenance.key) == get_program(again.provenance.key)
    assert step.provenance.compile_seconds == again.provenance.compile_seconds


def test_tagging_does_not_change_the_executed_thunks() -> None:
    script = Path(__file__).parent / "programs" / "compare_thunks.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    tagged, untagged = done.stdout.splitlines()[-2:]
    assert "kCustomCall" in tagged
    assert tagged == untagged
