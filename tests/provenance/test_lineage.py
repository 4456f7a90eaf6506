"""XLA's lineage of values: on request it comes back with the schedule, and changes nothing else."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ligerdiag.artifacts.artifact import RECORDED, Artifact
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import compile_cases, discover_cases
from ligerdiag.hlo.module import HloModule, OriginalArray, parse_original_value
from ligerdiag.hlo.parse import load_hlo, parse_hlo
from ligerdiag.model.jobs import Variation
from ligerdiag.provenance.identification import Identification
from ligerdiag.provenance.identity import EvidenceKind, ValueIdentity
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.workers.pool import Pool
from tests.hlo.placing import read_text
from tools.same_schedules import find_difference, pair_instructions

PROGRAMS = Path(__file__).parent / "programs"

type Artifacts = Mapping[str, Artifact]


@pytest.fixture(scope="module")
def pool(shared_cache: Path) -> Iterator[Pool]:
    with Pool(cache=Cache(shared_cache), jobs=1) as opened:
        yield opened


def compile_all(pool: Pool, variation: Variation) -> Artifacts:
    cases = discover_cases(["lineages.py"], pool=pool, directory=PROGRAMS)
    found: dict[str, Artifact] = {}
    for result in compile_cases(cases, [load_target("h100")], pool=pool, variation=variation):
        assert result.artifact is not None, result.error
        found[result.case.id] = result.artifact
    return found


@pytest.fixture(scope="module")
def plain(pool: Pool) -> Artifacts:
    return compile_all(pool, Variation())


@pytest.fixture(scope="module")
def recorded(pool: Pool) -> Artifacts:
    return compile_all(pool, Variation(lineage=True))


def load(artifact: Artifact) -> Identification:
    return Identification(load_hlo(artifact.program)[0], load_hlo(artifact.optimized)[0])


def list_original_names(module: HloModule) -> set[str]:
    return {array.name for one in module.instructions for array in one.original_values.values()}


def identify_all(identification: Identification, opcode: str) -> list[ValueIdentity]:
    return [identification.identify(one) for one in identification.optimized.instructions if one.opcode == opcode]


@pytest.mark.parametrize("name", ["joined", "twins", "controlled"])
def test_only_a_compile_that_asks_for_lineage_has_it_and_the_schedule_is_the_same(
    name: str, plain: Artifacts, recorded: Artifacts
) -> None:
    assert plain[name].provenance.lineage == ""
    assert recorded[name].provenance.lineage == RECORDED
    assert plain[name].provenance.key != recorded[name].provenance.key
    one, other = (load_hlo(artifacts[name].optimized) for artifacts in (plain, recorded))
    assert find_difference(one, other) == ""
    assert pair_instructions(one, other) is not None
    assert list_original_names(one[0]) == set()
    assert list_original_names(other[0])
    assert all(found.startswith("ld") for found in list_original_names(other[0]))
    assert list_original_names(load_hlo(recorded[name].program)[0]) == set()


def test_a_program_that_xla_refuses_with_its_lineage_is_compiled_without_it(
    plain: Artifacts, recorded: Artifacts
) -> None:
    said = recorded["folded"].provenance.lineage
    assert said.startswith("XLA does not compile the program with its lineage: ")
    assert "Mismatched tuple structure" in said
    one, other = (load_hlo(artifacts["folded"].optimized) for artifacts in (plain, recorded))
    assert find_difference(one, other) == ""
    assert list_original_names(other[0]) == set()


def test_a_program_that_does_not_compile_without_lineage_either_says_why(pool: Pool) -> None:
    (case,) = discover_cases(["lineages.py::twins"], pool=pool, directory=PROGRAMS)
    variation = Variation(lineage=True, flags={"xla_no_such_option": True})
    (result,) = compile_cases([case], [load_target("h100")], pool=pool, variation=variation)
    assert result.artifact is None
    assert "xla_no_such_option" in str(result.error)


def test_schedules_of_different_programs_differ(plain: Artifacts) -> None:
    one, other = (load_hlo(plain[name].optimized) for name in ("joined", "twins"))
    assert find_difference(one, other)
    assert pair_instructions(one, other) is None


def test_lineage_tells_the_slices_of_a_joined_product_apart(plain: Artifacts, recorded: Artifacts) -> None:
    """XLA makes one product of `h @ w1` and `h @ w2`, whose slices both have the metadata of the first one."""
    program = load_hlo(recorded["joined"].program)[0]
    products = {program.tags[one.id] for one in program.instructions if one.opcode == "dot"}
    assert len(products) == 2
    slices = identify_all(load(recorded["joined"]), "slice")
    assert {value.path for one in slices for value in one.values} == products
    assert {one.made_for for one in slices} < products
    assert any(one.contradictions for one in slices)
    assert not any(one.values for one in identify_all(load(plain["joined"]), "slice"))


def test_an_operation_that_xla_merges_with_another_one_is_both(plain: Artifacts) -> None:
    program = load_hlo(plain["twins"].program)[0]
    exponentials = {program.tags[one.id] for one in program.instructions if one.opcode == "exponential"}
    assert len(exponentials) == 2
    found = identify_all(load(plain["twins"]), "exponential")
    assert found
    assert all({value.path for value in one.values} == exponentials for one in found)


def test_values_inside_a_loop_are_identified(plain: Artifacts) -> None:
    identification = load(plain["controlled"])
    found = {
        kind
        for one in identification.optimized.instructions
        if one.opcode == "tanh"
        for kind in [evidence.kind for evidence in identification.identify(one).evidence if evidence.is_firm]
    }
    assert found == {EvidenceKind.STRUCTURE, EvidenceKind.TAG}


TEXT = """HloModule m
ENTRY e {
  x = f32[8] parameter(0)
  exp = f32[8] exponential(x), origin={{"ld17"}}
  tan = f32[8] tanh(x)
  ROOT r = (f32[8], f32[8]) tuple(exp, tan), origin={({"ld17"}, {})}
}
"""


def test_lineage_in_hlo_text_is_read() -> None:
    module = parse_hlo(read_text(TEXT).SerializeToString())[0]
    found = {one.name: one.original_values for one in module.instructions if one.original_values}
    assert found == {"exp": {(): OriginalArray("ld17")}, "r": {(0,): OriginalArray("ld17")}}


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a\x06\x12\x04ld17",  # an earlier form: the name is a field of the element
        b"\x0a\x02\x0a\x00",
        b"\xff",
        b"ld17",
    ],
)
def test_lineage_in_another_form_is_ignored(data: bytes) -> None:
    assert parse_original_value(data) == {}
