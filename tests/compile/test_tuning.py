"""XLA compiles without a GPU with the choices that its autotuner made on one, and the artifact says for which
instructions.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ligerdiag.artifacts.artifact import Artifact
from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import compile_cases, discover_cases
from ligerdiag.compile.lowering.autotuner_choices import drop_unknown_form, explain_fault, read_choices
from ligerdiag.errors import CompileError
from ligerdiag.hlo.module import HloInstruction
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.model.jobs import CaseSpec, Flag, Variation
from ligerdiag.model.tuning import TUNING_LOG, TunedInstruction, TunedKind, TuningFile
from ligerdiag.toolchains.gpu_targets import Target
from ligerdiag.toolchains.tuned_instructions import classify_tuned, list_tuned
from ligerdiag.toolchains.tuning_file import load_tuning
from ligerdiag.workers.pool import Pool
from tests.compile.tuned import BOTH, CUBLAS, FIRST, SECOND, TILES, render_entry, render_results

PROGRAMS = Path(__file__).parent / "programs"
OTHER = FIRST.replace("1024", "1000")
"""The HLO of a product that the program does not have."""


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """Returns a pool as `check --autotune-results` has it."""
    with Pool(cache=Cache(tmp_path_factory.mktemp("cache")), jobs=1, environment=TUNING_LOG) as opened:
        yield opened


@pytest.fixture(scope="module")
def case(pool: Pool) -> CaseSpec:
    (found,) = discover_cases(["products.py"], pool=pool, directory=PROGRAMS)
    return found


def load(text: str, folder: Path, target: Target, name: str = "tuned.pbtxt") -> TuningFile:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return load_tuning(path, [target], folder / "cache")


def compile_it(case: CaseSpec, tuning: TuningFile | None, pool: Pool, target: Target) -> Artifact:
    (result,) = compile_cases([case], [target], pool=pool, variation=Variation(tuning=tuning))
    assert result.artifact is not None, result.error
    return result.artifact


def list_products(artifact: Artifact) -> list[HloInstruction]:
    module, _ = load_hlo(artifact.optimized)
    names = {one.name for one in list_tuned(module)}
    return [one for one in module.entry.instructions if one.name in names]


def name(one: TunedInstruction) -> str:
    return one.name.split("_ld")[0]


def test_the_schedule_has_the_choices_of_the_file(case: CaseSpec, tmp_path: Path, h100: Target) -> None:
    with Pool(cache=Cache(tmp_path / "cache"), jobs=1, environment=TUNING_LOG) as pool:
        tuned = compile_it(case, load(BOTH, tmp_path, h100), pool, h100)
        plain = compile_it(case, None, pool, h100)  # in the same pool: no choice may be left over in a worker
    first, second = list_products(tuned)
    tiles = json.loads(first.proto.backend_config)["fusion_backend_config"]["block_level_fusion_config"]
    assert (tiles["output_tiles"], tiles["num_stages"]) == ([{"sizes": ["1", "64", "32"]}], 3)
    assert (second.opcode, json.loads(second.proto.backend_config)["gemm_backend_config"]["selected_algorithm"]) == (
        "custom-call",
        "7",
    )
    usual = list_products(plain)
    assert [one.opcode for one in usual] == ["fusion", "fusion"]
    assert b'"sizes":["1","64","32"]' not in usual[0].proto.backend_config
    assert tuned.provenance.key != plain.provenance.key
    assert plain.provenance.tuning is None


def test_the_artifact_names_the_instructions_that_had_an_entry(case: CaseSpec, tmp_path: Path, h100: Target) -> None:
    file = load(render_results(render_entry(SECOND, CUBLAS), render_entry(OTHER, TILES)), tmp_path, h100)
    with Pool(cache=Cache(tmp_path / "cache"), jobs=1, environment=TUNING_LOG) as pool:
        found = compile_it(case, file, pool, h100).provenance.tuning
    assert found is not None
    assert (found.file, found.sha256, found.entries, found.counted) == (file.name, file.sha256, 2, True)
    assert [(name(one), one.kind) for one in found.recorded] == [("gemm_fusion_dot.1", TunedKind.PRODUCT)]
    assert sorted((name(one), one.kind) for one in found.open) == [
        ("gemm_fusion_dot", TunedKind.PRODUCT),
        ("loop_reduce_fusion", TunedKind.FUSION),
        ("loop_reduce_fusion.1", TunedKind.FUSION),
    ]


def test_without_a_file_a_product_has_the_choice_that_it_has_with_a_file_about_others(
    case: CaseSpec, tmp_path: Path, h100: Target
) -> None:
    with Pool(cache=Cache(tmp_path / "cache"), jobs=1, environment=TUNING_LOG) as pool:
        other = compile_it(case, load(render_results(render_entry(OTHER, TILES)), tmp_path, h100), pool, h100)
        plain = compile_it(case, None, pool, h100)
    configs = [[one.proto.backend_config for one in list_products(artifact)] for artifact in (other, plain)]
    assert configs[0] == configs[1]


def test_the_key_has_the_contents_of_the_file_and_not_its_name(case: CaseSpec, tmp_path: Path, h100: Target) -> None:
    with Pool(cache=Cache(tmp_path / "cache"), jobs=1, environment=TUNING_LOG) as pool:
        one = compile_it(case, load(BOTH, tmp_path, h100), pool, h100)
        (same,) = compile_cases(
            [case], [h100], pool=pool, variation=Variation(tuning=load(BOTH, tmp_path, h100, "moved.pbtxt"))
        )
        other = compile_it(case, load(render_results(render_entry(FIRST, TILES)), tmp_path, h100), pool, h100)
    assert same.artifact is not None
    assert (same.cached, same.artifact.provenance.key) == (True, one.provenance.key)
    assert other.provenance.key != one.provenance.key
    (first, second) = list_products(other)
    assert (first.opcode, second.opcode) == ("fusion", "fusion")


def test_the_form_with_fingerprints_is_read_by_xla(case: CaseSpec, tmp_path: Path, h100: Target) -> None:
    text = (
        'entries { key { target { device: "0123456789abcdef" hlo_fingerprint: "00" } environment { codegen_version: "0" } } '
        "value { optimal_config { backend: TRITON backend_config { triton { block_m: 64 } } } } }\n"
    )
    with Pool(cache=Cache(tmp_path / "cache"), jobs=1, environment=TUNING_LOG) as pool:
        found = compile_it(case, load(text, tmp_path, h100), pool, h100).provenance.tuning
    assert found is not None
    assert (found.entries, found.recorded, len(found.open)) == (1, (), 4)


def test_the_products_of_a_schedule_are_those_that_a_gpu_tunes(case: CaseSpec, pool: Pool, h100: Target) -> None:
    module, _ = load_hlo(compile_it(case, None, pool, h100).optimized)
    assert [(name(one), one.kind) for one in list_tuned(module)] == [
        ("gemm_fusion_dot", TunedKind.PRODUCT),
        ("gemm_fusion_dot.1", TunedKind.PRODUCT),
    ]


@pytest.mark.parametrize(
    ("target", "kind", "expected"),
    [
        ("__cublas$lt$matmul", "", TunedKind.PRODUCT),
        ("__cublas$triangularSolve", "", TunedKind.FUSION),
        ("__cudnn$convForward", "", TunedKind.CONVOLUTION),
        ("__cudnn$norm", "", TunedKind.FUSION),
        ("triton_kernel_call", "", TunedKind.FUSION),
        ("", "__triton_gemm", TunedKind.PRODUCT),
        ("", "__triton", TunedKind.FUSION),
        ("", "", TunedKind.FUSION),
    ],
)
def test_the_autotuner_chooses_for_products_and_convolutions(target: str, kind: str, expected: TunedKind) -> None:
    assert classify_tuned(target, kind) is expected


@pytest.fixture
def file(tmp_path: Path, h100: Target) -> TuningFile:
    return load(BOTH, tmp_path, h100)


def test_a_log_without_a_word_about_tuning_counts_nothing(file: TuningFile) -> None:
    assert not read_choices("I0000 other words\n", file).counted
    nothing = read_choices("I0000 config_assigner.cc:1] No instructions to autotune.\n", file)
    assert (nothing.counted, nothing.recorded, nothing.open) == (True, (), ())


def test_an_xla_that_needs_every_entry_says_which_file_lacks_one(file: TuningFile) -> None:
    said = explain_fault("INTERNAL: Expect autotune result cache hit for deviceless compilation (HLO: %dot.3)", file)
    assert said.startswith(
        "this XLA needs an entry for every product and convolution, and `tuned.pbtxt` lacks an entry"
    )
    assert "%dot.3" in said
    assert explain_fault("Failed to parse autotune results string.", file).startswith("XLA cannot read `tuned.pbtxt`")
    assert explain_fault("out of memory", file) == ""


def test_an_older_xla_has_no_option_for_the_form(file: TuningFile) -> None:
    option = "xla_gpu_use_new_autotune_cache_format"
    fault, options = f"No such compile option: '{option}'", dict[str, Flag]({option: False, "a": 1})
    assert drop_unknown_form(fault, options, file)
    assert options == {"a": 1}
    assert not drop_unknown_form(fault, options, file)
    with pytest.raises(
        CompileError, match=r"cannot read entries with fingerprints of a GPU, such as those of `tuned\.pbtxt`"
    ):
        drop_unknown_form(fault, {option: True}, file)
