"""A tie puts a trivial operation before its reader, both in the compiled program and in the program as written."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import compile_cases, discover_cases
from ligerdiag.hlo.buffers import MemoryDemand
from ligerdiag.hlo.module import find_user_line
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.inspection.compilation import inspect_artifact
from ligerdiag.model.jobs import CaseSpec, Variation
from ligerdiag.toolchains.environments import provide_toolchain
from ligerdiag.toolchains.gpu_targets import Target
from ligerdiag.workers.pool import Pool
from tests.compile.test_other_toolchains import require

PROGRAMS = Path(__file__).parent / "programs"
CASES = Path(__file__).parents[2] / "cases"


def find_case(pool: Pool, selector: str) -> CaseSpec:
    (case,) = discover_cases([selector], pool=pool, directory=PROGRAMS)
    return case


def compile_tied(pool: Pool, target: Target, case: CaseSpec, ties: Sequence[str]) -> Artifact:
    (result,) = compile_cases([case], [target], pool=pool, variation=Variation(ties=tuple(ties)))
    assert result.artifact is not None, result.error
    return result.artifact


def judge(pool: Pool, artifact: Artifact) -> dict[str, str]:
    found = inspect_artifact(artifact, effects_cache=pool.cache.root / "effects")
    return {name: verdict.value for name, verdict in found.outputs.items()}


def find_tied(path: Path) -> list[str]:
    """Returns the opcodes of the instructions that a tie added, by their names in the program as written."""
    module, _ = load_hlo(path)
    instructions = [i for c in module.computations.values() for i in c.instructions]
    named = [i for i in instructions if re.search(r"ligerdiag tie#ld\d+$", i.op_name)]
    return sorted(i.opcode for i in named if i.opcode in {"subtract", "reduce"})


def find_memory(artifact: Artifact) -> MemoryDemand:
    _, buffers = load_hlo(artifact.optimized)
    assert buffers is not None
    assert buffers.memory is not None
    return buffers.memory


def tieable(artifact: Artifact, operand: int | None = None) -> list[str]:
    return [one.id for one in artifact.readers if not one.untieable and (operand is None or one.operand == operand)]


@pytest.mark.parametrize("row", ["float32-False-1-4-32-16", "float32-True-1-4-32-16"])
def test_tying_all_readers_is_equivalent_to_the_trivial_mode(pool: Pool, h100: Target, row: str) -> None:
    hidden = find_case(pool, f"{CASES / 'seed_flce.py'}::seed_flce[False-{row}]")
    trivial = find_case(pool, f"{CASES / 'seed_flce.py'}::seed_flce[True-{row}]")
    plain = compile_tied(pool, h100, hidden, ())
    tied = compile_tied(pool, h100, hidden, tieable(plain, operand=0))
    other = compile_tied(pool, h100, trivial, ())
    assert judge(pool, plain)["input"] == "stale"
    assert judge(pool, tied) == judge(pool, other) == dict.fromkeys(other.provenance.outputs, "fresh")
    assert find_memory(tied) == find_memory(other)


def test_a_tie_fixes_only_its_own_reader(pool: Pool, h100: Target) -> None:
    case = find_case(pool, f"{CASES / 'seed_flce.py'}::seed_flce[False-float32-True-1-4-32-16]")
    plain = compile_tied(pool, h100, case, ())
    (bias,) = [one for one in plain.readers if one.opcode == "stablehlo.reduce"]
    before, after = judge(pool, plain), judge(pool, compile_tied(pool, h100, case, [bias.id]))
    assert (before["bias"], before["input"]) == ("stale", "stale")
    assert (after["bias"], after["input"]) == ("fresh", "stale")


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("read_outside", {"cosine": "latent", "sine": "latent", "was": "fresh"}),
        ("read_at_two_levels", {"sine": "latent", "square": "latent", "was": "fresh"}),
        ("read_in_a_branch", {"either": "latent", "was": "fresh"}),
        ("run_in_a_loop", {"last": "fresh", "rows": "fresh"}),
    ],
)
def test_readers_in_callers_branches_and_loops_can_be_tied(
    pool: Pool, h100: Target, name: str, before: dict[str, str]
) -> None:
    case = find_case(pool, f"readers.py::{name}")
    plain = compile_tied(pool, h100, case, ())
    assert judge(pool, plain) == before
    assert judge(pool, compile_tied(pool, h100, case, tieable(plain))) == dict.fromkeys(before, "fresh")


def test_the_program_as_written_has_the_ties(pool: Pool, h100: Target) -> None:
    case = find_case(pool, "readers.py::read_outside")
    plain = compile_tied(pool, h100, case, ())
    assert find_tied(plain.as_written) == []
    assert find_tied(compile_tied(pool, h100, case, tieable(plain)[:1]).as_written) == ["reduce", "subtract"]
    both = compile_tied(pool, h100, case, tieable(plain))
    assert find_tied(both.as_written) == ["reduce", "subtract", "subtract"]


def test_a_tie_has_the_line_of_its_reader(pool: Pool, h100: Target) -> None:
    case = find_case(pool, f"{CASES / 'bf16_flce.py'}::bf16_flce[False-True-1-4-32-16]")
    reader = compile_tied(pool, h100, case, ()).readers[0]
    module, _ = load_hlo(compile_tied(pool, h100, case, [reader.id]).as_written)
    added = [
        i for c in module.computations.values() for i in c.instructions
        if i.opcode == "subtract" and "/ligerdiag tie#ld" in i.op_name
    ]  # fmt: skip
    lines = [find_user_line(module, instruction) for instruction in added]
    assert [line and (line.file, line.line) for line in lines] == [(reader.source.file, reader.source.line)]


def test_a_tie_spoils_a_derivative_that_needs_the_original(pool: Pool, h100: Target) -> None:
    case = find_case(pool, f"{CASES / 'saved_residual.py'}::saved_residual[tanh-loss-hidden]")
    plain = compile_tied(pool, h100, case, ())
    assert judge(pool, plain)["logits"] == "stale"
    assert judge(pool, compile_tied(pool, h100, case, tieable(plain)))["logits"] == "clobbered"


def test_the_toolchain_of_2024_ties_readers_too(h100: Target) -> None:
    require("seed")
    with Pool(cache=Cache(), toolchain=provide_toolchain("seed", Cache()), jobs=1) as pool:
        case = find_case(pool, f"{CASES / 'seed_flce.py'}::seed_flce[False-float32-True-1-4-32-16]")
        plain = compile_tied(pool, h100, case, ())
        assert plain.readers_trouble == ""
        tied = compile_tied(pool, h100, case, tieable(plain, operand=0))
    assert find_tied(tied.as_written) == ["reduce", "subtract", "subtract", "subtract"]
