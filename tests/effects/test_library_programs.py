"""Kernels of cuTile, CuTe DSL, Warp, TVM and Gluon: recorded dumps of `library_programs`, and the programs themselves."""

import json
import lzma
import tarfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.artifacts.call_records import KernelParameter, LibraryKernel
from ligerdiag.codec import parse_object, read_record
from ligerdiag.effects.access import Access
from ligerdiag.effects.call import compute_call_effects
from ligerdiag.effects.declared import parse_declarations
from ligerdiag.effects.library_kernels import MOST_PTX, compute_library_effects
from ligerdiag.effects.payload import parse_integer_attributes, parse_string_attributes
from ligerdiag.effects.ptx import find_ptx_writes
from ligerdiag.effects.tile_ir import compute_tile_accesses, find_elf_sections
from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.parse import load_hlo
from ligerdiag.model.report import CheckReport, Status
from tests.effects.library_programs import PACKAGES, PROGRAMS, explain_missing

RECORDED = Path(__file__).with_name("recorded")
READ, WRITE, BOTH, NONE, UNKNOWN = Access.READ, Access.WRITE, Access.READ_WRITE, Access.NONE, Access.UNKNOWN
CUTILE = {
    "hidden": ("sine_and_double", (BOTH,), (WRITE,), (4, 1, 1)),
    "declared": ("sine_and_double", (BOTH,), (NONE, WRITE), (4, 1, 1)),
    "second_operand": ("product", (READ, BOTH), (WRITE,), (2, 2, 1)),
    "by_index": ("add_at", (READ, READ, BOTH), (WRITE,), (4, 1, 1)),
}


def unpack(name: str, into: Path) -> Path:
    with tarfile.open(RECORDED / f"{name}.tar.xz") as archive:
        archive.extractall(into, filter="data")
    return into


def inspect(name: str, into: Path, **effects: object) -> CheckReport:
    declared = parse_declarations(effects)
    paths = (unpack(name, into / "dump"),)
    return api.inspect(api.InspectOptions(paths=paths, cache_directory=into / "cache", replay=False, effects=declared))


def read_verdicts(report: CheckReport) -> list[str]:
    (case,) = report.cases
    return [verdict.value for verdict in case.outputs.values()]


def find_call(name: str, into: Path) -> tuple[str, bytes]:
    """Returns target and backend config of the only custom call in a recorded program."""
    (path,) = unpack(name, into).glob("*before_optimizations.hlo.pb")
    ((_, call),) = load_hlo(path)[0].iterate_custom_calls()
    return call.proto.custom_call_target, call.proto.backend_config


@pytest.mark.parametrize("name", CUTILE)
def test_the_effects_of_a_cutile_kernel_come_from_its_tile_ir(name: str, tmp_path: Path) -> None:
    kernel, operands, outputs, grid = CUTILE[name]
    target, config = find_call(f"cutile-{name}", tmp_path)
    effects = compute_call_effects(target=target, backend_config=config, operands=len(operands), outputs=len(outputs))
    assert (effects.kernel, effects.operands, effects.outputs, effects.grid) == (kernel, operands, outputs, grid)
    assert effects.reasons == ()


@pytest.mark.parametrize(
    ("name", "verdicts", "operand"),
    [
        ("hidden", ["fresh", "stale"], 0),
        ("declared", ["fresh", "fresh", "fresh"], None),
        ("second_operand", ["fresh", "fresh", "stale"], 1),
        ("by_index", ["fresh", "stale", "fresh"], 2),
    ],
)
def test_a_dump_of_a_cutile_program_is_judged(
    name: str, verdicts: list[str], operand: int | None, tmp_path: Path
) -> None:
    report = inspect(f"cutile-{name}", tmp_path)
    assert read_verdicts(report) == verdicts
    written = {one.operand for case in report.cases for one in case.findings if one.rule == "LD006"}
    assert written == ({operand} if operand is not None else set())


def test_a_declaration_that_the_tile_ir_refutes_is_a_finding(tmp_path: Path) -> None:
    report = inspect("cutile-hidden", tmp_path, sine_and_double={"writes": []})
    assert read_verdicts(report) == ["fresh", "stale"]
    assert "LD018" in {one.rule for case in report.cases for one in case.findings}


def test_without_its_tile_ir_a_cutile_kernel_is_unknown_by_its_own_name(tmp_path: Path) -> None:
    target, config = find_call("cutile-hidden", tmp_path)
    for before, after in ((b".nv.tileir.debug_txt", b".nv.tileir.debug_bin"), (b"\\7FELF", b"\\7FELG")):
        damaged = config.replace(before, after)
        assert damaged != config
        effects = compute_call_effects(target=target, backend_config=damaged, operands=1, outputs=1)
        assert (effects.kernel, effects.operands, effects.outputs) == ("sine_and_double", (UNKNOWN,), (UNKNOWN,))
        assert "declare the kernel's writes under [tool.ligerdiag.effects]" in effects.reasons[0]


def test_a_cutile_call_that_passes_other_arrays_than_the_kernel_takes_is_unknown(tmp_path: Path) -> None:
    target, config = find_call("cutile-hidden", tmp_path)
    effects = compute_call_effects(target=target, backend_config=config, operands=0, outputs=1)
    assert effects.outputs == (UNKNOWN,)
    assert effects.reasons[0].startswith("`sine_and_double` takes 2 arrays, but the call passes 1")


def make_tile_ir(*lines: str) -> str:
    head = "entry @k(%arg0: tile<ptr<f32>>, %arg1: tile<i32>, %arg2: tile<ptr<f32>>) hints=<default = {}> {"
    return "\n".join((head, *lines, "return", "}"))


@pytest.mark.parametrize(
    ("lines", "accesses"),
    [
        (("%1 = store_ptr_tko weak %arg0, %arg1 token=%t : tile<ptr<f32>>, tile<f32> -> token",), (WRITE, NONE)),
        (("%t, %k = load_ptr_tko weak %arg2 token=%t : tile<ptr<f32>> -> tile<f32>, token",), (NONE, READ)),
        (
            (
                "if %c {",
                "%5 = offset %arg0, %arg1 : tile<ptr<f32>>, tile<i32> -> tile<ptr<f32>>",
                "} else {",
                "%5 = constant <f32: 1.0> : tile<f32>",
                "%6 = store_ptr_tko weak %arg2, %5 : tile<ptr<f32>>, tile<f32> -> token",
                "}",
            ),
            (NONE, WRITE),
        ),
        (
            (
                "%5 = select %c, %arg0, %arg2 : tile<i1>, tile<ptr<f32>> -> tile<ptr<f32>>",
                "%6 = store_ptr_tko weak %5, %v : tile<ptr<f32>>, tile<f32> -> token",
            ),
            (WRITE, WRITE),
        ),
        (('assert %c, "} %arg0 {" : tile<i1>',), (NONE, NONE)),
        (("%n = get_tensor_shape %arg0 : tile<ptr<f32>> -> tile<i32>",), (NONE, NONE)),
    ],
)
def test_addresses_in_tile_ir_are_followed(lines: tuple[str, ...], accesses: tuple[Access, ...]) -> None:
    assert compute_tile_accesses(make_tile_ir(*lines), "k") == accesses


@pytest.mark.parametrize(
    "line",
    [
        '%1 = "cuda_tile.store_ptr_tko"(%arg0, %v) : (tile<ptr<f32>>, tile<f32>) -> token',
        '"cuda_tile.store_ptr_tko"(%arg0, %v) : (tile<ptr<f32>>, tile<f32>) -> token',
        "%1 =\nstore_ptr_tko weak %arg0, %v : tile<ptr<f32>>, tile<f32> -> token",
        "%1 = mulf\n%v, %arg0 : tile<f32>, tile<ptr<f32>> -> token",
        "%1, %2 = load_ptr_tko weak %arg0 :\ntile<ptr<ptr<f32>>> -> tile<ptr<f32>>, token",
        "^bb0(%p: tile<ptr<f32>>):",
        "} else { store_ptr_tko weak %arg0, %v : tile<ptr<f32>>, tile<f32> -> token }",
        "if %c { yield",
        "multimem_store_view_tko %v, %p : tile<f32>, tile<ptr<f32>> -> token",
        "%1 = ptr_to_int %arg0 : tile<ptr<f32>> -> tile<i64>",
        "%1 = int_to_ptr %arg1 : tile<i32> -> tile<ptr<f32>>",
        "%1 = store_ptr_tko weak %arg1, %v : tile<ptr<f32>>, tile<f32> -> token",
        "%1 = store_ptr_tko weak %arg0, %arg2 : tile<ptr<ptr<f32>>>, tile<ptr<f32>> -> token",
        "%1, %2 = load_ptr_tko weak %arg0 : tile<ptr<ptr<f32>>> -> tile<ptr<f32>>, token",
        "%1 = for %i in (%a to %b, step %c) : tile<i32> iter_values(%p = %q) -> (tile<ptr<f32>>) {",
        "call @other(%arg0) : (tile<ptr<f32>>) -> ()",
        "multimem_store_view_tko %v, %arg0 : tile<f32>, tile<ptr<f32>> -> token",
    ],
)
def test_an_address_that_cannot_be_followed_makes_all_unknown(line: str) -> None:
    with pytest.raises(ArtifactError, match="in the Tile IR"):
        compute_tile_accesses(make_tile_ir("if %c {", line, "}"), "k")


@pytest.mark.parametrize("text", ["", "entry @k(", "entry @k() {", make_tile_ir(*["if %c {"] * 200)])
def test_tile_ir_that_no_compiler_wrote_is_a_one_line_error(text: str) -> None:
    with pytest.raises(ArtifactError) as error:
        compute_tile_accesses(text, "k")
    assert "\n" not in str(error.value)


def test_a_damaged_elf_file_is_a_one_line_error(tmp_path: Path) -> None:
    _, config = find_call("cutile-hidden", tmp_path)
    cubin = parse_string_attributes(config)["cubin_code"]
    assert find_elf_sections(cubin, b".nv.tileir.debug_txt")
    for size in range(0, len(cubin), 911):
        with pytest.raises(ArtifactError):
            find_elf_sections(cubin[:size], b".nv")
    for place in range(16, 64):  # each either finds sections or raises an ArtifactError
        with suppress(ArtifactError):
            find_elf_sections(cubin[:place] + b"\xff" + cubin[place + 1 :], b".nv")


def test_integers_in_a_dictionary_are_read() -> None:
    config = (
        b'{a = dense<[0, 1]> : tensor<2xi32>, b = dense<7> : tensor<3xi32>, s = ", a = 9 : i32", c = -4 : i32,'
        b' d = dense<"0x01"> : tensor<1xi32>}'
    )
    assert parse_integer_attributes(config) == {"a": (0, 1), "b": (7, 7, 7), "c": (-4,)}
    assert parse_integer_attributes(b"{a = dense<1> : tensor<99999999xi32>}") == {}


@pytest.mark.parametrize(
    ("name", "kernel"),
    [("hidden", "add_and_double_kernel"), ("two_kernels", "add_and_double_kernel+double_kernel")],
)
def test_a_cute_kernel_is_unknown_by_its_own_name(name: str, kernel: str, tmp_path: Path) -> None:
    report = inspect(f"cute-{name}", tmp_path)
    assert read_verdicts(report) == ["unknown", "unknown"]
    (finding,) = [one for case in report.cases for one in case.findings if one.rule == "LD014"]
    assert (finding.kernel, finding.operand) == (kernel, 0)
    key = f'"{kernel}"' if "+" in kernel else kernel
    assert f"[tool.ligerdiag.effects.{key}]" in finding.help
    assert finding.source is not None
    assert finding.source.file.endswith("cute_programs.py")


def test_a_declared_cute_kernel_is_judged_and_another_one_stays_unknown(tmp_path: Path) -> None:
    told = inspect("cute-hidden", tmp_path / "told", add_and_double_kernel={"writes": [0]})
    assert read_verdicts(told) == ["fresh", "stale"]
    other = inspect("cute-hidden", tmp_path / "other", double_kernel={"writes": []})
    assert read_verdicts(other) == ["unknown", "unknown"]


@pytest.mark.parametrize(("name", "outputs"), [("declared", 2), ("declared_both", 3)])
def test_an_operand_that_a_cute_call_aliases_needs_no_declaration(name: str, outputs: int, tmp_path: Path) -> None:
    report = inspect(f"cute-{name}", tmp_path)
    assert read_verdicts(report) == ["fresh"] * outputs
    assert [one for case in report.cases for one in case.findings] == []


@pytest.mark.parametrize(
    ("name", "verdicts", "written"),
    [("hidden", ["fresh", "stale"], 1), ("declared", ["fresh"] * 2, 0), ("declared_both", ["fresh"] * 3, 0)],
)
def test_a_gluon_kernel_is_followed_like_one_of_triton(
    name: str, verdicts: list[str], written: int, tmp_path: Path
) -> None:
    """The IR has layouts and shared memory."""
    report = inspect(f"gluon-{name}", tmp_path)
    assert read_verdicts(report) == verdicts
    found = [(one.kernel, one.operand) for case in report.cases for one in case.findings if one.rule == "LD006"]
    assert found == [("add_and_double", 0)] * written


def load_warp_kernels() -> dict[str, LibraryKernel]:
    """Returns the recorded kernels by the names of their targets."""
    fields = parse_object(lzma.decompress((RECORDED / "warp-kernels.json.xz").read_bytes()))
    return {one.target: one for one in read_record(tuple[LibraryKernel, ...], fields, "library_kernels")}


@pytest.mark.parametrize(
    ("target", "operands", "outputs"),
    [
        ("add_and_double_0", (BOTH,), (BOTH,)),
        ("add_and_double_1", (BOTH,), (NONE, BOTH)),
        ("add_rows_0", (READ, NONE, BOTH), (BOTH,)),
        ("add_rows_1", (READ, NONE, BOTH), (NONE, BOTH)),
    ],
)
def test_the_effects_of_a_warp_kernel_come_from_its_ptx(
    target: str, operands: tuple[Access, ...], outputs: tuple[Access, ...]
) -> None:
    kernel = load_warp_kernels()[target]
    effects = compute_library_effects(kernel, operands=len(operands), outputs=len(outputs))
    assert (effects.operands, effects.outputs, effects.reasons) == (operands, outputs, ())


STRUCTURES = """
.visible .entry k(
    .param .align 8 .b8 k_param_0[56],
    .param .align 8 .b8 k_param_1[56]
)
{
    ld.param.u64 %rd1, [k_param_0];
    ld.param.v2.u32 {%r1, %r2}, [k_param_0+16];
    ld.param.u64 %rd2, [k_param_1LOADED];
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd4, %rd2, %rd3;
    ld.global.u32 %r3, [%rd1];
    st.global.u32 [%rd4], %r3;
    ret;
}
"""


@pytest.mark.parametrize(
    ("loaded", "addresses", "written"),
    [
        ("", None, {0, 1}),
        ("", ((0, 8), (0, 8)), {1}),
        ("+8", ((0, 8), (0, 8)), {1}),
        ("+4", ((0, 8), (0, 8)), {1}),
        ("+16", ((0, 8), (0, 8)), set()),
        ("+%rd9", ((0, 8), (0, 8)), {1}),
    ],
)
def test_a_size_in_a_structure_is_no_address(
    loaded: str, addresses: tuple[tuple[int, ...], ...] | None, written: set[int]
) -> None:
    found = find_ptx_writes(STRUCTURES.replace("LOADED", loaded), "k", [True, True], addresses=addresses)
    assert found.parameters == written
    assert bool(found.reason) is not bool(written)


def test_a_warp_kernel_for_another_call_is_unknown() -> None:
    kernel = load_warp_kernels()["add_rows_0"]
    assert set(compute_library_effects(kernel, operands=2, outputs=1).operands) == {UNKNOWN}
    far = replace(kernel, parameters=(KernelParameter(buffer=9), *kernel.parameters[1:]))
    assert set(compute_library_effects(far, operands=3, outputs=1).operands) == {UNKNOWN}


def test_the_ptx_of_a_warp_kernel_is_followed_up_to_a_length() -> None:
    kernel = load_warp_kernels()["add_and_double_0"]
    for length, operands in ((MOST_PTX, (BOTH,)), (MOST_PTX + 1, (UNKNOWN,))):
        effects = compute_library_effects(replace(kernel, ptx=kernel.ptx.ljust(length)), operands=1, outputs=1)
        assert effects.operands == operands
    assert f"has more than {MOST_PTX} characters; declare the kernel's writes" in effects.reasons[0]


@pytest.mark.parametrize(
    ("name", "target"), [("warp-hidden", "add_and_double_0"), ("tvm-hidden", "tvm_add_and_double")]
)
def test_a_dump_without_the_kernel_is_unknown_until_it_is_declared(name: str, target: str, tmp_path: Path) -> None:
    report = inspect(name, tmp_path / "unknown")
    assert read_verdicts(report) == ["unknown", "unknown"]
    (finding,) = [one for case in report.cases for one in case.findings if one.rule == "LD014"]
    assert (finding.kernel, finding.operand) == (target, 0)
    assert read_verdicts(inspect(name, tmp_path / "told", **{target: {"writes": [0]}})) == ["fresh", "stale"]
    assert read_verdicts(inspect(name, tmp_path / "trusted", **{target: {"writes": "aliased"}})) == ["fresh", "fresh"]


@pytest.mark.parametrize("name", ["tvm-declared", "warp-declared_double"])
def test_an_alias_of_the_only_operand_is_all_that_xla_needs(name: str, tmp_path: Path) -> None:
    assert read_verdicts(inspect(name, tmp_path)) == ["fresh", "fresh", "fresh"]


@pytest.mark.nightly
@pytest.mark.parametrize("library", PACKAGES)
def test_the_programs_compile_without_a_gpu_and_are_judged_as_expected(library: str, tmp_path: Path) -> None:
    if reason := explain_missing(library):
        pytest.skip(reason)
    selectors = (str(PROGRAMS / f"{library}_programs.py"),)
    report = api.check(api.CheckOptions(selectors=selectors, cache_directory=tmp_path, replay=False))
    statuses = {case.id: case.status for case in report.cases}
    assert set(statuses.values()) == {Status.EXPECTED}, json.dumps(
        {name: status.value for name, status in statuses.items()}
    )
