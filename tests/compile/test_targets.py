"""Targets: known, described, and with a source for each figure."""

import os
from pathlib import Path

import pytest

from ligerdiag.errors import CompileError, InputError
from ligerdiag.toolchains import this_gpu
from ligerdiag.toolchains.gpu_targets import (
    AUTO,
    SUFFIXES,
    Target,
    choose_toolchain,
    explain_unfit,
    list_compared_targets,
    list_targets,
    list_unconfirmed,
    load_target,
    load_targets,
    read_architecture,
)
from ligerdiag.toolchains.text_format import split_fields, strip_comments
from ligerdiag.toolchains.toolchain import Platform, Toolchain

GENERATIONS = {
    "6.0": ["p100"],
    "7.0": ["v100"],
    "8.0": ["a100", "a100_pcie_80", "a100_sxm_40"],
    "8.6": ["a6000"],
    "9.0": ["h100", "h100_pcie", "h100_sxm_mig", "h200"],
    "10.0": ["b200", "b200_mig", "gb200"],
    "10.3": ["b300", "gb300"],
    "12.0": ["rtx6000pro"],
    "gfx90a": ["mi200"],
    "gfx942": ["mi300"],
    "gfx950": ["mi350"],
    "gfx1250": ["mi450", "mi450_strict"],
}


def test_the_built_in_targets_are_sorted_by_name_and_have_a_generation() -> None:
    targets = list_targets()
    assert [target.name for target in targets] == sorted(name for names in GENERATIONS.values() for name in names)
    assert {target.name: target.generation for target in targets} == {
        name: generation for generation, names in GENERATIONS.items() for name in names
    }


@pytest.mark.parametrize("target", list_targets(), ids=lambda target: target.name)
def test_every_target_has_the_figures_that_a_compiler_asks_for(target: Target) -> None:
    fields = {line.path.rpartition(".")[2] for line in split_fields(target.description)}
    assert {
        "threads_per_block_limit", "threads_per_warp", "shared_memory_per_block", "shared_memory_per_core",
        "shared_memory_per_block_optin", "threads_per_core_limit", "core_count", "fpus_per_core", "block_dim_limit_x",
        "memory_bandwidth", "l2_cache_size", "clock_rate_ghz", "device_memory_size", "platform_name",
    } <= fields  # fmt: skip
    assert target.is_own
    assert target.model
    assert target.memory > 1 << 33
    assert target.cores > 10
    assert (target.platform, target.vendor) == (
        (Platform.CUDA, "NVIDIA") if target.compute_capability else (Platform.ROCM, "AMD")
    )


def test_the_targets_that_are_compared_by_default_are_four() -> None:
    assert [target.name for target in list_compared_targets()] == ["a100", "b200", "h100", "h200"]


@pytest.mark.parametrize(
    ("name", "architecture", "model"),
    [
        ("h100", "sm_90a", "NVIDIA H100 80GB HBM3"),
        ("b300", "sm_103", "NVIDIA B300"),
        ("rtx6000pro", "sm_120", "NVIDIA RTX PRO 6000 Blackwell"),
        ("mi300", "gfx942", "MI300X"),
    ],
)
def test_a_target_names_its_architecture_and_model(name: str, architecture: str, model: str) -> None:
    target = load_target(name)
    assert (target.architecture, target.model) == (architecture, model)


def test_placeholders_of_the_source_are_marked_in_the_description() -> None:
    marked = [target.name for target in list_targets() if "# PLACEHOLDERS" in target.description]
    assert marked == ["mi450", "mi450_strict"]


def test_a_toolchain_for_cuda_does_not_compile_for_an_amd_gpu() -> None:
    toolchain = Toolchain(name="seed", python="python", versions={})
    assert explain_unfit(load_target("a6000"), toolchain) == ""
    assert explain_unfit(load_target("mi300"), toolchain) == (
        "target `mi300` (gfx942) is a GPU of AMD: it needs a toolchain for ROCm, such as `--toolchain rocm`, but"
        " `seed` compiles for CUDA"
    )
    rocm = Toolchain(name="rocm", python="python", versions={}, platform=Platform.ROCM)
    assert explain_unfit(load_target("mi300"), rocm) == ""
    assert "is a GPU of NVIDIA: it needs a toolchain for CUDA, such as `--toolchain default`" in explain_unfit(
        load_target("h100"), rocm
    )


@pytest.mark.parametrize(
    ("name", "targets", "chosen"),
    [
        ("default", ("mi300",), "rocm"),
        ("default", ("mi300", "mi450"), "rocm"),
        ("default", ("mi300", "h100"), "default"),
        ("default", ("h100",), "default"),
        ("0.11", ("mi300",), "0.11"),
    ],
)
def test_targets_of_amd_alone_choose_the_toolchain_for_rocm(name: str, targets: tuple[str, ...], chosen: str) -> None:
    assert choose_toolchain(name, load_targets(targets)) == chosen


def test_a_report_says_for_which_targets_no_gpu_has_confirmed_a_verdict() -> None:
    assert list_unconfirmed(()) == ()
    assert list_unconfirmed(("mi300", "mi350", "mi300")) == (
        "no AMD GPU has confirmed a verdict of ligerdiag: for `mi300` and `mi350`, only a replay on the CPU checks"
        " the verdicts",
    )


def test_the_architecture_of_an_amd_gpu_is_read_from_its_description() -> None:
    found = {target.name: read_architecture(target.description) for target in list_targets()}
    assert {name: gfx for name, gfx in found.items() if gfx} == {
        "mi200": "gfx90a",
        "mi300": "gfx942",
        "mi350": "gfx950",
        "mi450": "gfx1250",
        "mi450_strict": "gfx1250",
    }


@pytest.mark.parametrize("name", [target.name for target in list_targets() if target.name != "h200"])
def test_every_figure_of_a_gpu_names_its_source(name: str) -> None:
    lines = load_target(name).description.splitlines()
    figures = [line for line in lines if ":" in line and not line.startswith("#") and line.startswith("  ")]
    own = [line for line in figures if "rate_infos" not in line and "data_caches" not in line]
    own = [line for line in own if "version" not in line.split(":")[0]]
    assert len(own) > 15
    assert [line for line in own if "#" not in line] == []


def test_a_target_is_also_found_by_the_vendor_s_name_of_the_gpu() -> None:
    assert [load_target(name).name for name in ("mi300x", "MI350X", "NVIDIA H200")] == ["mi300", "mi350", "h200"]
    assert len(load_targets(("mi300", "mi300x"))) == 1


def test_an_unknown_target_names_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"expected a target of a100, .*, v100, auto, or a .* but got `h1000`"):
        load_target("h1000")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_description_file_is_a_target(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"mine{suffix}"
    path.write_text("gpu_device_info { cuda_compute_capability { major: 8 minor: 6 } }")
    target = load_target(str(path))
    assert (target.name, target.compute_capability, target.path) == ("mine", 86, path)
    assert not target.is_own


def test_two_targets_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder, suffix, minor in (("a", ".pbtxt", 6), ("b", ".txt", 9)):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / f"mine{suffix}"
        path.write_text(f"gpu_device_info {{ cuda_compute_capability {{ major: 8 minor: {minor} }} }}")
    names = [str(tmp_path / "a" / "mine.pbtxt"), str(tmp_path / "b" / "mine.txt")]
    assert [target.name for target in load_targets([names[0], names[0], "h100"])] == ["mine", "h100"]
    with pytest.raises(InputError, match="two different targets have the same name"):
        load_targets(names)


def test_a_file_in_another_format_is_not_a_target(tmp_path: Path) -> None:
    path = tmp_path / "mine.txtpb"
    path.write_text("[project]\nname = 1\n")
    with pytest.raises(InputError, match="describes no GPU: expected"):
        load_target(str(path))


def test_an_intel_gpu_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "pvc.txtpb"
    path.write_text('gpu_device_info { oneapi_compute_capability { architecture: "pvc" } }')
    with pytest.raises(InputError, match="describes no GPU that ligerdiag can compile for"):
        load_target(str(path))


def test_without_a_gpu_there_is_no_target_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(this_gpu, "has_nvidia_device", lambda: False)
    this_gpu.describe_this_gpu.cache_clear()
    with pytest.raises(InputError, match="is the GPU of this machine, but this machine has none: name a target"):
        load_target(AUTO)


def test_a_gpu_that_jax_cannot_use_is_an_error_with_the_reason() -> None:
    with pytest.raises(CompileError, match=r"XLA does not describe the GPU of this machine \(exit code 1\): .*no_such"):
        this_gpu.ask_xla({**os.environ, **this_gpu.ENVIRONMENT, "JAX_PLATFORMS": "no_such"})


def test_a_file_without_a_gpu_is_not_a_target(tmp_path: Path) -> None:
    path = tmp_path / "mine.pbtxt"
    path.write_text("# cuda_compute_capability { major: 8 }\n")
    with pytest.raises(InputError, match="describes no GPU: it has neither"):
        load_target(str(path))


def test_a_comment_ends_where_its_line_ends_and_quotes_hide_it() -> None:
    assert strip_comments('a: 1 # one\n\n# two\nb: "x # y"  # three') == 'a: 1\nb: "x # y"'


def test_a_comment_does_not_make_another_target(tmp_path: Path) -> None:
    text = "gpu_device_info { cuda_compute_capability { major: 8 } }"
    for name, added in (("one", ""), ("two", "  # a source")):
        (tmp_path / f"{name}.pbtxt").write_text(text + added)
    assert load_target(str(tmp_path / "one.pbtxt")).sha256 == load_target(str(tmp_path / "two.pbtxt")).sha256
