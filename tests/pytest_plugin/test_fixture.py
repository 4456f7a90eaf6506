"""The options that the plugin reads from command line, configuration and markers; most reports are made by hand."""

import pytest

import ligerdiag.pytest_plugin.settings  # noqa: F401 - pytester forgets what a run imports, and NumPy imports once

FAKE = """
    import pytest
    from dataclasses import replace
    from ligerdiag.model.findings import Verdict
    from ligerdiag.model.report import CaseReport, CheckReport, Coverage, Status
    import ligerdiag.pytest_plugin.settings as plugin

    asked = []

    @pytest.fixture(autouse=True)
    def answers(monkeypatch):
        def answer(live, options, root, on_progress=None):
            asked.append((live, options, root))
            verdict, status = live.function()
            case = CaseReport(
                id=live.name or "step", target=options.targets[0], toolchain=options.toolchain, status=Status(status),
                outputs={"loss": Verdict(verdict)}, expected=live.expected, coverage=Coverage(kernels=1),
                error="it broke" if status == "could not analyse" else "", error_exit_code=3,
            )
            return CheckReport(cases=(case,), targets=options.targets, toolchain="default")
        monkeypatch.setattr(plugin, "check_live", answer)
"""


@pytest.fixture
def run(pytester: pytest.Pytester):
    """Runs a test file with an api that returns the result of the function."""
    pytester.makeconftest(FAKE)

    def run_it(text: str, *words: str, **files: str) -> pytest.RunResult:
        for name, content in files.items():
            (pytester.path / name.replace("__", ".")).write_text(content)
        pytester.makepyfile(text)
        return pytester.runpytest("--strict-markers", *words)

    return run_it


@pytest.mark.parametrize(
    ("verdict", "status", "words", "passes"),
    [
        ("fresh", "clean", "", True),
        ("fresh", "nothing to check", "", True),
        ("stale", "findings", "", False),
        ("latent", "findings", "", False),
        ("latent", "findings", "fail_on='error'", True),
        ("stale", "as expected", "expected='hazard'", True),
        ("fresh", "unexpected", "expected='hazard'", False),
        ("unknown", "inconclusive", "", False),
        ("unknown", "inconclusive", "strict=False", True),
        ("unknown", "could not analyse", "", False),
    ],
)
def test_only_a_right_schedule_passes(run, verdict: str, status: str, words: str, passes: bool) -> None:
    result = run(f"def test_it(schedule): schedule.check(lambda: ({verdict!r}, {status!r}), {words})")
    result.assert_outcomes(passed=int(passes), failed=int(not passes))
    if not passes:
        result.stdout.fnmatch_lines([f"*WrongScheduleError: *; `step` on h100: {status}*", "*loss *"])


def test_the_error_has_the_report_as_data(run) -> None:
    run("""
        import pytest
        def test_it(schedule):
            with pytest.raises(AssertionError) as raised:
                schedule.check(lambda: ("stale", "findings"))
            assert raised.value.report.outputs == {"loss": "stale"}
    """).assert_outcomes(passed=1)


def test_a_call_takes_precedence_over_marker_command_line_and_configuration_in_this_order(run) -> None:
    text = """
        import pytest
        from conftest import asked

        def targets(schedule, **words):
            return schedule.check(lambda: ("fresh", "clean"), **words).target

        def test_configured(schedule):
            assert targets(schedule) == CONFIGURED

        @pytest.mark.schedule(target="b200", replay=False)
        class TestMarked:
            def test_marked(self, schedule):
                assert targets(schedule) == "b200"
                assert not asked[-1][1].replay

            @pytest.mark.schedule(target="h200")
            def test_nearest(self, schedule):
                assert targets(schedule) == "h200"
                assert not asked[-1][1].replay

            def test_called(self, schedule):
                assert targets(schedule, target="h100", replay=True) == "h100"
                assert asked[-1][1].replay
    """
    table = '[tool.ligerdiag]\ntargets = ["a100"]\n'
    run(text.replace("CONFIGURED", '"h100"')).assert_outcomes(passed=4)
    run(text.replace("CONFIGURED", '"a100"'), pyproject__toml=table).assert_outcomes(passed=4)
    ini = table + '[tool.pytest.ini_options]\nligerdiag_target = "h200"\n'
    run(text.replace("CONFIGURED", '"h200"'), pyproject__toml=ini).assert_outcomes(passed=4)
    run(text.replace("CONFIGURED", '"b200"'), "--ligerdiag-target=b200", pyproject__toml=ini).assert_outcomes(passed=4)


def test_with_several_targets_the_schedule_must_be_right_on_each(run) -> None:
    text = """
        import dataclasses
        import pytest
        import ligerdiag.pytest_plugin.settings as plugin
        from conftest import asked
        from ligerdiag.model.findings import Verdict
        from ligerdiag.model.report import Status

        @pytest.fixture(autouse=True)
        def each(monkeypatch, answers):
            answer = plugin.check_live
            def answer_each(live, options, root):
                report = answer(live, options, root)
                worst = {"outputs": {"loss": Verdict.STALE}, "status": Status.FINDINGS}
                cases = [
                    dataclasses.replace(report.cases[0], target=target, **(worst if target == "b200" else {}))
                    for target in options.targets
                ]
                return dataclasses.replace(report, cases=tuple(cases))
            monkeypatch.setattr(plugin, "check_live", answer_each)

        def right():
            return "fresh", "clean"

        @pytest.mark.parametrize("target", ["a100,h100", "a100, h100", ("a100", "h100")])
        def test_right_on_both(schedule, target):
            assert schedule.check(right, target=target).target == "a100"
            assert asked[-1][1].targets == ("a100", "h100")

        def test_wrong_on_the_second(schedule):
            with pytest.raises(AssertionError, match="; `step` on b200: findings") as caught:
                schedule.check(right, target="a100,b200")
            assert caught.value.report.target == "b200"

        def test_of_the_command_line(schedule):
            assert schedule.check(right).target == "h200"
            assert asked[-1][1].targets == ("h200", "a100")
    """
    run(text, "--ligerdiag-target=h200,a100").assert_outcomes(passed=5)
    table = '[tool.ligerdiag]\ntargets = ["h200", "a100"]\n'
    run(text, pyproject__toml=table).assert_outcomes(passed=5)  # all targets of the table, as `ligerdiag check` does


def test_with_several_wrong_targets_the_worst_comes_first(run) -> None:
    text = """
        import dataclasses
        import pytest
        import ligerdiag.pytest_plugin.settings as plugin
        from ligerdiag.model.findings import Finding, Severity, Verdict
        from ligerdiag.model.report import Status

        FOUND = {
            "a100": ("LD003", Severity.WARNING, Verdict.LATENT),
            "h100": ("LD001", Severity.ERROR, Verdict.STALE),
            "b200": ("LD001", Severity.ERROR, Verdict.STALE),
        }

        @pytest.fixture(autouse=True)
        def each(monkeypatch, answers):
            answer = plugin.check_live
            def answer_each(live, options, root):
                report = answer(live, options, root)
                cases = []
                for target in options.targets:
                    rule, severity, verdict = FOUND[target]
                    finding = Finding(rule=rule, severity=severity, message="-", outputs=("loss",))
                    cases.append(
                        dataclasses.replace(
                            report.cases[0], target=target, outputs={"loss": verdict}, findings=(finding,)
                        )
                    )
                return dataclasses.replace(report, cases=tuple(cases))
            monkeypatch.setattr(plugin, "check_live", answer_each)

        def test_it(schedule):
            first = "^LD001: output `loss` is stale; `step` on h100: findings, `step` on b200: findings, `step` on a100"
            with pytest.raises(AssertionError, match=first) as caught:
                schedule.check(lambda: ("latent", "findings"), target="a100,h100,b200")
            assert caught.value.report.target == "h100"
    """
    run(text).assert_outcomes(passed=1)


def test_the_configuration_decides_which_findings_fail(run) -> None:
    text = """
        def test_latent(schedule):
            schedule.check(lambda: ("latent", "findings"))
        def test_undecided(schedule):
            schedule.check(lambda: ("unknown", "inconclusive"))
    """
    run(text).assert_outcomes(failed=2)
    table = '[tool.ligerdiag]\nfail_on = "error"\nstrict = false\n'
    run(text, pyproject__toml=table).assert_outcomes(passed=2)
    ini = table + '[tool.pytest.ini_options]\nligerdiag_fail_on = "warning"\nligerdiag_strict = true\n'
    run(text, pyproject__toml=ini).assert_outcomes(failed=2)


def test_suppressions_and_the_cache_come_from_the_project(run, tmp_path) -> None:
    table = (
        '[tool.ligerdiag]\nsuppress = [{rule = "LD006", reason = "known"}]\nknown = "known.json"\n'
        'autotune_results = "h100.pbtxt"\n'
        '[tool.pytest.ini_options]\nligerdiag_cache_dir = "here"\n'
    )
    text = """
        from conftest import asked
        def test_it(schedule, pytestconfig):
            schedule.check(lambda: ("fresh", "clean"))
            live, options, root = asked[-1]
            assert [entry.rule for entry in options.suppress] == ["LD006"]
            assert options.known.name == "known.json"
            assert options.autotune_results.name == "h100.pbtxt"
            assert options.cache_directory == CACHE
            assert root == pytestconfig.rootpath
    """
    run(text.replace("CACHE", "root / 'here'"), pyproject__toml=table).assert_outcomes(passed=1)
    given = run(text.replace("CACHE", f"type(root)({str(tmp_path)!r})"), f"--ligerdiag-cache-dir={tmp_path}")
    given.assert_outcomes(passed=1)


def test_an_unknown_option_is_reported_with_the_nearest_one(run) -> None:
    result = run("""
        import pytest
        @pytest.mark.schedule(tarjet="h100")
        def test_marked(schedule):
            pass
        def test_called(schedule):
            schedule.check(lambda: ("fresh", "clean"), tarjet="h100")
    """)
    result.assert_outcomes(errors=1, failed=1)
    result.stdout.fnmatch_lines(["*in the marker `schedule` but got `tarjet`, did you mean `target`*"])
    result.stdout.fnmatch_lines(["*in `schedule.check` but got `tarjet`, did you mean `target`*"])


def test_a_process_of_xdist_uses_one_worker(run) -> None:
    text = """
        from conftest import asked
        def test_it(schedule):
            schedule.check(lambda: ("fresh", "clean"))
            assert asked[-1][1].jobs == JOBS
    """
    run(text.replace("JOBS", "None")).assert_outcomes(passed=1)
    run(text.replace("JOBS", "1"), "-n1").assert_outcomes(passed=1)


def test_the_plugin_costs_a_pytest_run_almost_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys
        import pytest
        import ligerdiag.pytest_plugin
        for name in ("numpy", "rich", "jax", "triton", "typer", "google", "cloudpickle"):
            assert name not in sys.modules, name
        for name in ("ligerdiag.api", "ligerdiag.report", "ligerdiag.cli", "ligerdiag.compile"):
            assert name not in sys.modules, name
        """
    )
    (file,) = pytester.path.glob("test_*.py")
    assert pytester.runpython(file).ret == 0


CASES = """
from ligerdiag import Arg, Case

def double(x):
    return {"y": x * 2}

ARGS = (Arg(shape=(4,)),)
CASES = (
    Case(name="right", function=double, args=ARGS, params=("a", 1), expected="fresh"),
    Case(name="wrong", function=double, args=ARGS, expected="hazard"),
)
"""


def test_a_marker_makes_one_test_of_each_case_with_its_expectation(pytester: pytest.Pytester) -> None:
    (pytester.path / "cases").mkdir()
    (pytester.path / "cases" / "mine.py").write_text(CASES)
    (pytester.path / "pyproject.toml").write_text("[project]\nname = 'p'\nversion = '0'\n")
    pytester.makepyfile("""
        import pytest
        @pytest.mark.ligerdiag_cases("cases/mine.py")
        @pytest.mark.schedule(replay=False)
        def test_a_case(schedule, case):
            assert schedule.check_case(case).id == case.id
    """)
    words = ("--strict-markers", "-v", f"--ligerdiag-cache-dir={pytester.path / 'cache'}")
    result = pytester.runpytest_subprocess(*words)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*::test_a_case?right?a-1?? PASSED*", "*::test_a_case?wrong? FAILED*"])
    result.stdout.fnmatch_lines(["*unexpected: `wrong` on h100: expected a stale, clobbered or latent output*"])
    pytester.runpytest_subprocess(*words, "-n2").assert_outcomes(passed=1, failed=1)


def test_missing_cases_are_a_collection_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        @pytest.mark.ligerdiag_cases("cases/none.py")
        def test_a_case(schedule, case):
            pass
    """)
    result = pytester.runpytest()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["no file or folder `cases/none.py`"])
    pytester.makepyfile("""
        import pytest
        @pytest.mark.ligerdiag_cases("cases/none.py")
        def test_without_argument(schedule):
            pass
    """)
    pytester.runpytest().stdout.fnmatch_lines(["expected the argument `case` of a test with the marker*"])
