"""The readers of a kernel's operand after the call; ids are tags of these programs' operations."""

import json
import shutil
from pathlib import Path

import pytest

from ligerdiag.artifacts.artifact import Artifact, load_artifact, write_manifest
from ligerdiag.artifacts.call_records import Readers, TieSite, parse_readers, render_readers
from ligerdiag.codec import parse_object
from ligerdiag.compile.compile_service import CompileResult, compile_cases, discover_cases
from ligerdiag.errors import ArtifactError
from ligerdiag.model.jobs import Variation
from ligerdiag.toolchains.gpu_targets import Target
from ligerdiag.workers.pool import Pool
from tests.compile.conftest import Compile

PROGRAMS = Path(__file__).parent / "programs"
IN_A_BRANCH = "the kernel is inside a `stablehlo.case`: its results are not available outside"
IN_A_LOOP = IN_A_BRANCH.replace("case", "while")
EARLIER = "it reads, before the kernel, what an earlier iteration of the loop overwrote"
TO_A_KERNEL = "the function `double` passes the value to a kernel, which would get a copy"
NO_OUTPUT = "the kernel returns no floating-point array to tie with"

type Results = dict[str, CompileResult]


@pytest.fixture(scope="module")
def results(compile_selected: Compile) -> Results:
    return compile_selected("readers.py")


def artifact_of(results: Results, name: str) -> Artifact:
    artifact = results[name].artifact
    assert artifact is not None, results[name].error
    return artifact


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("read_beside", [("5.0:6.0", "add"), ("5.0:6.1", "add"), ("5.0:7.3", "return")]),
        ("read_outside", [("4/9.0:5.0", "sine"), ("4/9.0:6.0", "cosine")]),
        ("read_at_two_levels", [("4/8/12.0:5.0", "sine"), ("8/12.0:9.0", "multiply"), ("8/12.0:9.1", "multiply")]),
        (
            "read_between_two_calls",
            [("4/10.0:5.0", "sine"), ("4/10.0:6.0", "call"), ("4/10.0:7.0", "cosine"), ("6/10.0:7.0", "cosine")],
        ),
        ("run_in_a_branch", [("14.0:16.0", "sine")]),
        ("read_in_a_branch", [("4.0:11.0", "cosine"), ("4.0:13.0", "sine")]),
        ("run_in_a_loop", [("11.0:12.0", "sine"), ("11.0:17.0", "return"), ("11.0:18.0", "return")]),
        ("close_over_in_a_loop", [("13.0:12.0", "cosine"), ("13.0:18.0", "return"), ("13.0:19.0", "sine")]),
        ("overwrite_integers", [("7.0:10.0", "add")]),
    ],
)
def test_readers_after_the_kernel_are_found_in_program_order(
    results: Results, name: str, expected: list[tuple[str, str]]
) -> None:
    artifact = artifact_of(results, name)
    assert artifact.readers_trouble == ""
    assert [(one.id, one.opcode.split(".")[1]) for one in artifact.readers] == expected


def test_readers_that_cannot_be_tied_are_listed_with_the_reason(results: Results) -> None:
    troubles = {
        (name, reader.id): reader.untieable
        for name in results
        for reader in artifact_of(results, name).readers
        if reader.untieable
    }
    assert troubles == {
        ("read_between_two_calls", "4/10.0:6.0"): TO_A_KERNEL,
        ("run_in_a_branch", "14.0:16.0"): IN_A_BRANCH,
        ("run_in_a_loop", "11.0:18.0"): IN_A_LOOP,
        ("close_over_in_a_loop", "13.0:12.0"): EARLIER,
        ("close_over_in_a_loop", "13.0:19.0"): IN_A_LOOP,
        ("overwrite_integers", "7.0:10.0"): NO_OUTPUT,
    }


def test_a_reader_records_its_operand_and_its_line(results: Results) -> None:
    sine, _ = artifact_of(results, "read_outside").readers
    source = (PROGRAMS / "readers.py").read_text().splitlines()
    assert (sine.kernel, sine.call, sine.operand, sine.through) == ("double_kernel", 9, 0, (4,))
    assert (sine.reader, sine.reader_operand, sine.opcode, sine.shape) == (5, 0, "stablehlo.sine", "f32[16,16]")
    assert sine.source.file == str(PROGRAMS / "readers.py")
    assert '"sine": jnp.sin(y), "cosine"' in source[sine.source.line - 1]
    (added,) = artifact_of(results, "overwrite_integers").readers
    assert added.shape == "s32[16,16]"


def test_the_call_of_a_reader_is_a_kernel_call_of_the_artifact(results: Results) -> None:
    for name in results:
        artifact = artifact_of(results, name)
        tags = {tag for call in artifact.kernel_calls for tag in call.tags}
        assert {reader.call for reader in artifact.readers} <= tags


def test_a_tied_program_has_the_same_readers(results: Results, pool: Pool, h100: Target) -> None:
    plain = artifact_of(results, "read_at_two_levels")
    variation = Variation(ties=(plain.readers[0].id, plain.readers[2].id))
    (tied,) = compile_cases([results["read_at_two_levels"].case], [h100], pool=pool, variation=variation)
    assert tied.artifact is not None, tied.error
    assert tied.artifact.provenance.tags > plain.provenance.tags
    assert tied.artifact.readers == plain.readers


def test_a_program_without_a_kernel_has_no_readers(pool: Pool, h100: Target) -> None:
    cases = discover_cases(["sharded.py"], pool=pool, directory=PROGRAMS)
    (result,) = compile_cases(cases, [h100], pool=pool)
    assert result.artifact is not None, result.error
    assert (result.artifact.readers, result.artifact.readers_trouble) == ((), "")


def test_readers_survive_a_round_trip_through_json(results: Results) -> None:
    found: tuple[TieSite, ...] = artifact_of(results, "read_between_two_calls").readers
    readers = Readers(found=found, trouble="said")
    assert parse_readers(parse_object(render_readers(readers))) == readers


def test_damaged_readers_are_noticed(results: Results, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(artifact_of(results, "read_outside").directory, copy)
    path = copy / "readers.json"
    records = json.loads(path.read_text())
    records["readers"][0]["reader"] = "five"
    path.write_text(json.dumps(records))
    write_manifest(copy)
    with pytest.raises(ArtifactError, match="expected an integer for `reader`"):
        load_artifact(copy)
