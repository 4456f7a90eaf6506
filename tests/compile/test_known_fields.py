"""Only fields that a toolchain's XLA does not know are removed from a target description, and they are named."""

import subprocess
import sys
from pathlib import Path

import pytest

from ligerdiag.artifacts.cache import Cache
from ligerdiag.compile.compile_service import CompileResult, compile_cases, discover_cases
from ligerdiag.errors import CompileError, InputError
from ligerdiag.toolchains.gpu_targets import load_target
from ligerdiag.toolchains.text_format import drop_field, find_number, find_value, render_fields, split_fields
from ligerdiag.toolchains.toolchain import current_toolchain
from ligerdiag.workers.pool import Pool

PROBE = Path(__file__).parents[2] / "ligerdiag" / "toolchains" / "probes" / "overwriting_kernel.py"


def test_each_field_has_a_line_and_a_path() -> None:
    lines = split_fields('info { name: "a # b" inner <x: 1> }  # the end\nversion: [1, 2]\n')
    assert render_fields(lines) == 'info {\n  name: "a # b"\n  inner {\n    x: 1\n  }\n}\nversion: [ 1 , 2 ]\n'
    assert [line.path for line in lines] == [
        "info", "info.name", "info.inner", "info.inner.x", "info.inner", "info", "version",
    ]  # fmt: skip
    assert (find_value(lines, "info.name"), find_number(lines, "info.inner.x")) == ("a # b", 1)
    assert (find_value(lines, "info.other"), find_number(lines, "info.name")) == ("", 0)


def test_a_field_is_dropped_by_its_line_and_its_namesakes_stay() -> None:
    lines = split_fields("info { name: 1 version: 2 inner { version: 3 } }\nversion { major: 4 }\n")
    assert render_fields(drop_field(lines, 2)) == (
        "info {\n  name: 1\n  inner {\n    version: 3\n  }\n}\nversion {\n  major: 4\n}\n"
    )
    assert render_fields(drop_field(lines, 0)) == "version {\n  major: 4\n}\n", "a message goes with all its fields"


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("a: [1, 2], b: 4;", "a: [ 1 , 2 ]\nb: 4\n"),
        ("b: { c: -1.5e+3 } a: 'x'", "b {\n  c: -1.5e+3\n}\na: 'x'\n"),
        ('b: "quoted \\" { a: 1" a: 2', 'b: "quoted \\" { a: 1"\na: 2\n'),
    ],
)
def test_the_forms_of_the_text_format_are_understood(text: str, rendered: str) -> None:
    assert render_fields(split_fields(text)) == rendered


@pytest.mark.parametrize("text", ["a {", "a: ", "a { b: 1 > }", "}", "a: [1", "a: @"])
def test_a_malformed_description_is_an_input_error(text: str) -> None:
    with pytest.raises(InputError, match="in the target description but got"):
        split_fields(text)


def compile_probe(description: str, tmp_path: Path, shared_cache: Path) -> CompileResult:
    """Returns the result of compiling a small program for the described target with the default toolchain."""
    path = tmp_path / "mine.txtpb"
    path.write_text(description)
    with Pool(cache=Cache(shared_cache), toolchain=current_toolchain(), jobs=1, timeout=300) as pool:
        cases = discover_cases([str(PROBE)], pool=pool, directory=PROBE.parent)
        (result,) = compile_cases(cases, [load_target(str(path))], pool=pool)
    return result


def with_fields(fields: str) -> str:
    return load_target("h100").description.replace("gpu_device_info {", f"gpu_device_info {{\n{fields}\n")


def test_the_artifact_names_the_fields_that_xla_does_not_know(tmp_path: Path, shared_cache: Path) -> None:
    fields = '  core_cuont: 1\n  caches { level: 1 size: 2 } caches { level: 2 }\n  dnn_version: "9.1.0"  # known'
    text = with_fields(fields).replace('  dnn_version: "9.19.0"\n', "")
    assert compile_probe(text, tmp_path, shared_cache).artifact is not None
    result = compile_probe(text, tmp_path, shared_cache)
    assert result.cached
    assert result.artifact is not None
    found = result.artifact.provenance
    assert found.dropped_fields == ("gpu_device_info.core_cuont", "gpu_device_info.caches")
    assert found.target_sha256 == load_target(str(tmp_path / "mine.txtpb")).sha256


def test_an_enum_value_that_xla_does_not_know_is_dropped(tmp_path: Path, shared_cache: Path) -> None:
    text = load_target("h100").description.replace("ACCELERATED_FEATURES", "NEXT_FEATURES")
    result = compile_probe(text, tmp_path, shared_cache)
    assert result.artifact is not None
    dropped = result.artifact.provenance.dropped_fields
    assert dropped == ("gpu_device_info.cuda_compute_capability.feature_extension",)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("core_count: 132", "core_count: many", "Expected integer, got: many"),
        ("core_count: 132", "core_count: 132 core_count: 7", 'Non-repeated field "core_count" is specified multiple'),
    ],
)
def test_any_other_fault_of_a_description_is_an_error_in_the_words_of_xla(
    old: str, new: str, said: str, tmp_path: Path, shared_cache: Path
) -> None:
    error = compile_probe(load_target("h100").description.replace(old, new), tmp_path, shared_cache).error
    assert isinstance(error, CompileError)
    assert said in str(error)
    assert "does not take the description of a GPU" in str(error)


FITS = """
import sys
from pathlib import Path
from ligerdiag.compile.cases import known_fields
known_fields._NEEDED = ("gpu_device_info.new",)
try:
    known_fields.fit_description(Path(sys.argv[1]).read_text())
except known_fields.CompileError as error:
    print(error)
"""


def test_a_field_without_which_it_would_be_another_gpu_is_not_dropped(tmp_path: Path) -> None:
    (tmp_path / "mine.txtpb").write_text(with_fields("new: 1"))
    command = (sys.executable, "-c", FITS, str(tmp_path / "mine.txtpb"))
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"JAX_PLATFORMS": "cpu"})
    assert (
        "this XLA does not know the field `gpu_device_info.new`, and without the field it would compile for another GPU"
        in done.stdout
    )


def test_an_abort_of_xla_on_a_description_is_an_error_of_the_case(tmp_path: Path, shared_cache: Path) -> None:
    text = load_target("h100").description.replace("threads_per_warp: 32", "threads_per_warp: 0")
    error = compile_probe(text, tmp_path, shared_cache).error
    assert isinstance(error, CompileError)
    assert "was aborted by signal 8 (SIGFPE)" in str(error)
