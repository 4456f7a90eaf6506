"""Declarations in the configuration file, for a kernel that the analysis cannot follow and for one that it can."""

from dataclasses import replace
from pathlib import Path

import pytest

from ligerdiag import api
from ligerdiag.effects.declared import parse_declarations
from ligerdiag.errors import InputError
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CheckReport, Status
from ligerdiag.reduce.reduce_case import Reduced
from ligerdiag.reduce.reduced_program import Size
from ligerdiag.reduce.symptom import Symptom, SymptomKind
from ligerdiag.rules.programs.ld014_unknown_effect import FORGED_POINTER
from ligerdiag.rules.schedules.ld003_latent_order import LUCKY_READER
from tests.api.conftest import RunCli

TRUSTED = "the effects of `forging_kernel` are declared, and trusted where the kernel could not be analysed"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("declared")
    (path / "forges.py").write_text(FORGED_POINTER.code)
    (path / "lucky.py").write_text(LUCKY_READER.code)
    return path


def check(file: Path, cache: Path, effects: dict[str, object]) -> CheckReport:
    options = api.CheckOptions(
        selectors=(str(file),), cache_directory=cache, replay=False, effects=parse_declarations(effects)
    )
    return api.check(options)


def test_a_declaration_is_trusted_if_the_effects_are_unknown_and_the_report_says_so(folder: Path, cache: Path) -> None:
    report = check(folder / "forges.py", cache, {"forging_kernel": {"writes": [0]}})
    (case,) = report.cases
    assert set(case.outputs.values()) == {Verdict.FRESH}
    (finding,) = case.findings
    assert finding.rule == "LD006"
    assert dict(finding.evidence)["kernel"] == (
        "`forging_kernel` was not analysed: its effects are those that you declared"
    )
    assert report.notes == (TRUSTED,)


def test_a_kernel_without_a_declaration_stays_unknown(folder: Path, cache: Path) -> None:
    (case,) = check(folder / "forges.py", cache, {"another_kernel": {"writes": []}}).cases
    assert (case.status, set(case.outputs.values())) == (Status.INCONCLUSIVE, {Verdict.UNKNOWN})


def test_a_declaration_that_the_kernel_contradicts_is_a_finding_and_not_trusted(folder: Path, cache: Path) -> None:
    (case,) = check(folder / "lucky.py", cache, {"double_kernel": {"writes": []}}).cases
    assert (case.status, case.outputs["columns"]) == (Status.FINDINGS, Verdict.LATENT)
    assert [finding.message for finding in case.findings if finding.rule == "LD018"] == [
        "operand 0 of `double_kernel` is declared read only but is read and written"
    ]


def test_a_declaration_of_the_case_wins_over_the_configuration(folder: Path, cache: Path) -> None:
    code = FORGED_POINTER.code.replace('name="forges"', 'name="own", effects={"forging_kernel": {"writes": []}}')
    (folder / "own.py").write_text(code)
    report = check(folder / "own.py", cache, {"forging_kernel": {"writes": [0]}})
    (case,) = report.cases
    assert (set(case.outputs.values()), case.findings) == ({Verdict.FRESH}, ())
    assert report.notes == (TRUSTED,)


def test_a_reduced_program_is_judged_with_the_declaration_of_its_case(folder: Path, cache: Path) -> None:
    """The file with the reduced program, here a case file that was not reduced, has no declaration."""
    size = Size(equations=1, arguments=1, outputs=1, elements=1)
    reduced = Reduced(
        case_id="own",
        symptom=Symptom(kind=SymptomKind.FINDING, rule="LD006"),
        before=size,
        after=size,
        steps=(),
        candidates=0,
        lines=1,
        text="",
        hlo="",
        errors=(),
        seconds=0.0,
        case_file=str(folder / "forges.py"),
        effects={"forging_kernel": {"writes": [0]}},
    )
    selected = api.ReduceOptions(selector="own.py", output=folder / "out.py", target="h100", cache_directory=cache)
    options = replace(api.make_reduced_check(reduced, selected), replay=False, view=False)
    (case,) = api.check(options).cases
    assert set(case.outputs.values()) == {Verdict.FRESH}


def test_a_wrong_declaration_of_a_case_is_an_error(folder: Path, cache: Path) -> None:
    code = FORGED_POINTER.code.replace('name="forges"', 'name="odd", effects={"forging_kernel": {"writes": ["x"]}}')
    (folder / "odd.py").write_text(code)
    with pytest.raises(InputError, match=r"for `writes` in `effects` of case `odd` for `forging_kernel` but got 'x'"):
        check(folder / "odd.py", cache, {})


def test_the_command_line_passes_on_the_declarations_in_the_file(folder: Path, run_cli: RunCli, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[tool.ligerdiag.effects.forging_kernel]\nwrites = []\n")
    words = ("forges.py", "--no-replay")
    assert run_cli("check", *words, cwd=folder).code == 1
    outcome = run_cli("check", *words, "--config", config, cwd=folder)
    assert outcome.code == 0
    assert "note: the effects of `forging_kernel` are declared" in outcome.out


LIBRARY = """
import jax
from ligerdiag import Arg, Case


def call(target, x, *others, aliases, effect=False):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.ffi.ffi_call(target, shape, input_output_aliases=aliases, has_side_effect=effect)(x, *others)


def all_aliased(x):
    h = x * 3
    return {"y": call("lib_scale", h, aliases={0: 0}), "h": h + 1}


def partly_aliased(x):
    h, k = x * 3, x * 5
    return {"y": call("lib_add", h, k, aliases={0: 0}), "h": h + 1, "k": k * 2, "x": x + 1}


def with_effects(x):
    h, k = x * 3, x * 5
    return {"y": call("lib_log", h, k, aliases={0: 0}, effect=True), "k": k * 2}


FUNCTIONS = (all_aliased, partly_aliased, with_effects)
CASES = tuple(Case(name=f.__name__, function=f, args=(Arg(shape=(16, 16)),)) for f in FUNCTIONS)
"""


@pytest.mark.parametrize("is_trusted", [False, True])
def test_aliases_of_a_library_call_are_known_and_other_writes_only_if_declared(
    is_trusted: bool, folder: Path, cache: Path
) -> None:
    file = folder / "library.py"
    file.write_text(LIBRARY)
    report = check(file, cache, {"lib_*": {"writes": "aliased"}} if is_trusted else {})
    whole, partly, effects = report.cases
    assert (whole.status, set(whole.outputs.values()), whole.findings) == (Status.CLEAN, {Verdict.FRESH}, ())
    unknown = {name for name, verdict in partly.outputs.items() if verdict is Verdict.UNKNOWN}
    assert unknown == (set() if is_trusted else {"y", "k"})  # `h` and `x` depend on nothing that may be overwritten
    assert partly.status is (Status.CLEAN if is_trusted else Status.INCONCLUSIVE)
    assert Verdict.UNKNOWN in effects.outputs.values()
    assert all(finding.rule == "LD014" for case in report.cases for finding in case.findings)
    if not is_trusted:
        (finding,) = partly.findings
        assert (finding.operand, 'writes = "aliased"' in finding.help) == (1, True)
        assert 'writes = "aliased"' not in effects.findings[0].help
    else:
        (finding,) = effects.findings
        assert dict(finding.evidence)["reason"] == (
            '`writes = "aliased"` is declared, but not trusted: the call has side effects'
        )
        assert "under `[tool.ligerdiag.effects.lib_log]`: `writes = [0]`" in finding.help
        assert report.notes == (
            "the effects of `lib_*` are declared, and trusted for calls of a library without side effects: they overwrite"
            " only operands that their outputs alias",
        )
