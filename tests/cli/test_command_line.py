"""Every command through the real entry point: from options to output and exit code."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ligerdiag.cli.exit_codes import MEANINGS
from ligerdiag.cli.options import parse_size, parse_targets
from ligerdiag.errors import CompileError, InputError, LigerdiagError
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import Status
from ligerdiag.replay.replay_worker import Bounds
from ligerdiag.run_options import CheckOptions
from tests.cli.conftest import FakeApi, RunCommand
from tests.report.samples import make_case, make_finding, make_report


def test_check_prints_the_table_and_exits_with_its_code(api: FakeApi, run_command: RunCommand) -> None:
    outcome = run_command("check")
    assert outcome.code == 0
    assert "flce[hidden]  as expected  loss fresh" in outcome.out
    assert outcome.err == "0/1 compile flce[hidden]\n"
    assert api.asked == [CheckOptions()]


def test_check_passes_on_every_option(api: FakeApi, run_command: RunCommand, tmp_path: Path) -> None:
    where = ("--target", "a100,h100", "--target", "b200", "--cache-dir", str(tmp_path))
    how = ("--no-replay", "--replay-seconds", "60", "--replay-memory", "500M", "--full", "--rows", "--device")
    with_these = ("--orders", "20", "--toolchain", "seed", "--source-root", str(tmp_path), "--source-root", "src")
    run_command("check", "a[*]", "mine.py", *where, "-j", "3", "--timeout", "7.5", "--refresh", *how, *with_these)
    assert api.asked == [
        CheckOptions(
            selectors=("a[*]", "mine.py"),
            targets=("a100", "h100", "b200"),
            jobs=3,
            timeout=7.5,
            cache_directory=tmp_path,
            refresh=True,
            replay=False,
            bounds=Bounds(seconds=60.0, memory=500 << 20, full=True),
            rows=True,
            orders=20,
            device=True,
            toolchain="seed",
            source_roots=(tmp_path, Path("src")),
        )
    ]


@pytest.mark.parametrize(
    ("status", "words", "code"),
    [
        (Status.EXPECTED, (), 0),
        (Status.UNEXPECTED, (), 1),
        (Status.ERROR, (), 3),
        (Status.DISAGREEMENT, (), 3),
        (Status.INCONCLUSIVE, (), 0),
        (Status.INCONCLUSIVE, ("--strict",), 4),
        (Status.NOTHING, (), 0),  # it has a kernel
    ],
)
def test_check_exits_by_status(
    api: FakeApi, run_command: RunCommand, status: Status, words: tuple[str, ...], code: int
) -> None:
    api.report = make_report(make_case(status=status))
    assert run_command("check", *words).code == code


def test_check_weighs_findings_by_fail_on(api: FakeApi, run_command: RunCommand) -> None:
    api.report = make_report(make_case(status=Status.FINDINGS, expected=None, outputs={"a": Verdict.LATENT}))
    assert run_command("check").code == 1
    assert run_command("check", "--fail-on", "error").code == 0


def test_json_is_alone_on_stdout(api: FakeApi, run_command: RunCommand) -> None:
    api.report = make_report(make_case(status=Status.UNEXPECTED))
    outcome = run_command("check", "--format", "json")
    assert json.loads(outcome.out)["exit_code"] == outcome.code == 1


def test_the_file_gets_the_format_and_stdout_keeps_the_table(
    api: FakeApi, run_command: RunCommand, tmp_path: Path
) -> None:
    path = tmp_path / "report.json"
    outcome = run_command("check", "--format", "json", "--output", str(path))
    assert json.loads(path.read_text())["cases"][0]["id"] == "flce[hidden]"
    assert "flce[hidden]  as expected" in outcome.out
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]


@pytest.mark.parametrize(
    ("place", "said"),
    [("", "expected a file for --output"), ("missing/report.json", "the directory of --output, `")],
)
def test_an_unwritable_output_is_an_error_before_any_work(
    api: FakeApi, run_command: RunCommand, tmp_path: Path, place: str, said: str
) -> None:
    outcome = run_command("check", "--output", str(tmp_path / place))
    assert outcome.code == 2
    assert outcome.err.startswith(f"error: {said}")
    assert api.asked == []


def test_an_old_output_file_survives_a_run_that_fails(api: FakeApi, run_command: RunCommand, tmp_path: Path) -> None:
    path = tmp_path / "report.log"
    path.write_text("old")
    api.error = CompileError("worker gone")
    assert run_command("check", "--output", str(path)).code == 3
    assert path.read_text() == "old"


@pytest.mark.parametrize(
    ("error", "code"), [(InputError("expected `a`"), 2), (CompileError("aborted"), 3), (LigerdiagError("x"), 3)]
)
def test_an_error_is_one_line_with_its_exit_code(
    api: FakeApi, run_command: RunCommand, error: LigerdiagError, code: int
) -> None:
    api.error = error
    outcome = run_command("check")
    assert outcome.code == code
    assert (outcome.out, outcome.err) == ("", f"error: {error}\n")


def test_an_error_cannot_colour_the_terminal(api: FakeApi, run_command: RunCommand) -> None:
    api.error = InputError("no case `\x1b[31m[red]\n`")
    assert run_command("check").err == "error: no case `[red] `\n"


def test_a_bug_in_ligerdiag_is_a_traceback(api: FakeApi, run_command: RunCommand) -> None:
    api.error = ZeroDivisionError("ours")
    with pytest.raises(ZeroDivisionError):
        run_command("check")


def test_ctrl_c_exits_with_130_and_prints_one_word(api: FakeApi, run_command: RunCommand) -> None:
    api.error = KeyboardInterrupt()
    outcome = run_command("check")
    assert (outcome.code, outcome.err) == (130, "interrupted\n")


def test_an_interrupted_report_is_shown_and_exits_with_130(api: FakeApi, run_command: RunCommand) -> None:
    api.report = make_report(make_case(), interrupted=True)
    outcome = run_command("check")
    assert outcome.code == 130
    assert "flce[hidden]" in outcome.out
    assert outcome.err.endswith("interrupted\n")


@pytest.mark.parametrize(
    "words",
    [
        ("check", "--format", "xml"),
        ("check", "--fail-on", "sometimes"),
        ("check", "--jobs", "0"),
        ("check", "--timeout", "-1"),
        ("check", "--replay-memory", "much"),
        ("check", "--replay-memory", "0"),
        ("check", "--replay-seconds", "0"),
        ("check", "--nonsense"),
        ("chekc",),
    ],
)
def test_wrong_usage_exits_with_2_and_no_traceback(
    api: FakeApi, run_command: RunCommand, words: tuple[str, ...]
) -> None:
    outcome = run_command(*words)
    assert outcome.code == 2
    assert "Traceback" not in outcome.err
    assert api.asked == []


def test_the_help_of_check_lists_exit_codes_and_verdicts(run_command: RunCommand) -> None:
    outcome = run_command("check", "--help")
    assert outcome.code == 0
    flat = " ".join(outcome.out.split())
    for code, meaning in MEANINGS.items():
        assert f"{code.value} {meaning}" in flat
    for verdict in Verdict:
        assert verdict.value in flat.lower()


def test_version_is_printed(run_command: RunCommand) -> None:
    assert run_command("--version").out.startswith("ligerdiag ")


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "ligerdiag", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("ligerdiag ")


def test_list_shows_expectation_mesh_and_description(api: FakeApi, run_command: RunCommand) -> None:
    lines = run_command("list").out.splitlines()
    assert lines == [
        "case          expected        mesh  about",
        "flce[hidden]  w stale|latent  x=8   the seed",
        "ce            -               -",
    ]
    assert run_command("list", "--ids").out == "flce[hidden]\nce\n"


def test_a_selector_without_matches_exits_with_2(api: FakeApi, run_command: RunCommand) -> None:
    assert run_command("list", "nothing").code == 2


def test_targets_are_listed_and_shown(api: FakeApi, run_command: RunCommand) -> None:
    assert run_command("targets").out.splitlines() == [
        "target  vendor  generation  memory  cores  toolchains     to be created",
        "h100    NVIDIA  9.0         80 GiB  132    default,whole  absent",
        "mi300   AMD     gfx942      -       -      -              -",
    ]
    assert run_command("targets", "h100").out == "# figures\ncuda {}\n"
    outcome = run_command("targets", "h1000")
    assert (outcome.code, outcome.err) == (2, "error: expected a target of h100, mi300 but got `h1000`\n")


def test_targets_as_json_have_figures_and_toolchains(api: FakeApi, run_command: RunCommand) -> None:
    both = json.loads(run_command("targets", "--format", "json").out)["targets"]
    assert [(one["name"], one["platform"], one["toolchains"]) for one in both] == [
        ("h100", "cuda", ["default", "whole"]),
        ("mi300", "rocm", []),
    ]
    (one,) = json.loads(run_command("targets", "h100", "--format", "json").out)["targets"]
    assert (one.pop("sha256"), one) == (
        api.load_target("h100").sha256,
        {
            "name": "h100",
            "vendor": "NVIDIA",
            "platform": "cuda",
            "generation": "9.0",
            "architecture": "sm_90a",
            "model": "NVIDIA H100",
            "memory_bytes": 80 << 30,
            "cores": 132,
            "path": "h100.pbtxt",
            "toolchains": ["default", "whole"],
            "toolchains_to_create": ["absent"],
        },
    )


def test_an_unknown_rule_exits_with_2(api: FakeApi, run_command: RunCommand) -> None:
    outcome = run_command("explain", "LD999")
    assert (outcome.code, outcome.err) == (2, "error: expected a rule such as LD001 but got `LD999`\n")


def test_an_unknown_rule_exits_with_2_and_lists_the_rules(run_command: RunCommand) -> None:
    outcome = run_command("explain", "LD999")
    assert outcome.code == 2
    assert "LD999" in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "size"),
    [("500M", 500 << 20), ("4G", 4 << 30), ("1.5GiB", 3 << 29), ("4 gb", 4 << 30), ("1048576", 1 << 20), ("2k", 2048)],
)
def test_sizes_are_parsed_with_and_without_units(text: str, size: int) -> None:
    assert parse_size(text) == size


def test_targets_are_split_in_order_without_duplicates() -> None:
    assert parse_targets(["b200, a100", "a100", ","]) == ("b200", "a100")
    assert parse_targets([]) == ()


def test_help_imports_neither_rich_nor_jax_nor_the_analysis() -> None:
    script = (
        "import sys; sys.argv = ['ligerdiag', 'check', '--help']\n"
        "from ligerdiag.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'rich', 'jax', 'triton', 'numpy', 'google.protobuf', 'ligerdiag.api', 'ligerdiag.analysis'}\n"
        "sys.exit(f'imported {heavy & set(sys.modules)}' if heavy & set(sys.modules) else 0)\n"
    )
    result = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_a_command_imports_no_arrays_and_no_framework() -> None:
    """Only the workers need them; numpy alone was a fifth of a command's imports."""
    script = (
        "import sys, ligerdiag.api, ligerdiag.cli.main\n"
        "heavy = {'jax', 'jaxlib', 'triton', 'numpy', 'scipy', 'cloudpickle'}\n"
        "sys.exit(f'imported {heavy & set(sys.modules)}' if heavy & set(sys.modules) else 0)\n"
    )
    result = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def test_a_closed_pipe_gives_no_traceback(tmp_path: Path) -> None:
    script = "import ligerdiag.cli.main as m; m.main()"
    command = f"{sys.executable} -c '{script}' check --help | head -1"
    result = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True)
    assert "Traceback" not in result.stderr


def test_the_policy_of_a_run_follows_the_options(api: FakeApi, run_command: RunCommand) -> None:
    run_command("check")
    run_command("check", "-x", "--lf", "--strict", "--fail-on", "error")
    usual, strict = api.policies
    assert usual is not None
    assert strict is not None
    assert (usual.exit_first, usual.last_failed) == (False, False)
    assert (strict.exit_first, strict.last_failed) == (True, True)
    latent = make_case(status=Status.FINDINGS, expected=None, outputs={"a": Verdict.LATENT})
    unsure = make_case(status=Status.INCONCLUSIVE)
    assert [usual.fails(one) for one in (latent, unsure, make_case())] == [True, False, False]
    assert [strict.fails(one) for one in (latent, unsure, make_case())] == [False, True, False]


@pytest.mark.parametrize("words", [("-x",), ("--last-failed",), ("-q",), ("--durations", "0")])
def test_options_about_one_run_do_not_go_with_two_toolchains(
    api: FakeApi, run_command: RunCommand, words: tuple[str, ...]
) -> None:
    outcome = run_command("check", "--toolchain", "0.10,default", *words)
    assert (outcome.code, api.asked) == (2, [])
    assert f"expected one toolchain with {words[0]} but got" in outcome.err


@pytest.mark.parametrize("word", ["-x", "--last-failed"])
def test_a_cluster_runs_all_selected_cases(api: FakeApi, run_command: RunCommand, word: str) -> None:
    outcome = run_command("check", "--scheduler", "tcp://nowhere:1", word)
    assert (outcome.code, api.asked) == (2, [])
    assert f"`{word}` cannot be combined with `--scheduler`" in outcome.err


def test_quiet_leaves_out_table_progress_and_coverage(api: FakeApi, run_command: RunCommand) -> None:
    allowed, unsure = make_finding(message="allowed"), make_case("unsure", Status.INCONCLUSIVE, expected=None)
    api.report = make_report(
        make_case("right", findings=(allowed,)),
        make_case("wrong", Status.FINDINGS, expected=None, findings=(make_finding(message="counts"),)),
        unsure,
        notes=("a note",),
        selected="--last-failed: 3 of 4 cases",
    )
    outcome = run_command("check", "-q")
    assert (outcome.code, outcome.err) == (1, "")
    assert outcome.out.startswith("error[LD002]: counts\n")
    assert [word for word in ("allowed", "covered:", "case  ") if word in outcome.out] == []
    *_, open_case, empty, selected, note, last = outcome.out.splitlines()
    assert note == "note: a note"
    assert open_case == "inconclusive: `unsure` on h100: not everything could be decided"
    assert (empty, selected) == ("", "selected: --last-failed: 3 of 4 cases")
    assert last.startswith("3 cases on h100 in 1.5 s: 1 as expected, 1 with findings and no expectation, ")
    report = json.loads(run_command("check", "-q", "--format", "json").out)
    assert (report["notes"], report["selected"]) == (["a note"], "--last-failed: 3 of 4 cases")


@pytest.mark.parametrize("command", [("check",), ("inspect", "dump"), ("report", "dump")])
def test_quiet_and_verbose_exclude_each_other(api: FakeApi, run_command: RunCommand, command: tuple[str, ...]) -> None:
    outcome = run_command(*command, "-q", "-v")
    assert (outcome.code, api.asked) == (2, [])
    assert outcome.err == "error: expected -q or -v but got both: -q leaves out most of the report, and -v adds to it\n"


def test_the_numbers_by_status_add_up_on_several_targets(api: FakeApi, run_command: RunCommand) -> None:
    cases = (
        make_case("a"),
        make_case("a", target="a100"),
        make_case("b", Status.NOT_CHECKED),
        make_case("b", target="a100"),
    )
    api.report = make_report(*cases, targets=("h100", "a100"))
    last = run_command("check").out.splitlines()[-1]
    assert last.startswith("2 cases on h100, a100 (4 results) in 1.5 s: 3 as expected, 0 unexpected, ")
    assert last.endswith(", 1 not run")
