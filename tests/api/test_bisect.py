"""Real bisections through `api` and the command line: the ties that fix the seed's case, and a sharded case that no tie
fixes.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from ligerdiag import api
from ligerdiag.errors import InputError
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import Progress
from ligerdiag.report.comparisons import Axis, Bisection
from tests.api.conftest import ROOT, RunCli

SEED = f"{ROOT / 'cases/seed_flce.py'}::seed_flce[False-float32-True-1-4-32-16]"
SHARDED = f"{ROOT / 'cases/sharded_flce.py'}::sharded_flce[vocabulary-trivial]"
FRESH, STALE = Verdict.FRESH, Verdict.STALE


@pytest.fixture(scope="module")
def edges(cache: Path) -> dict[str, Bisection]:
    options = api.BisectOptions(selectors=(SEED, SHARDED), axis=Axis.EDGES, cache_directory=cache)
    return {one.case_id: one for one in api.bisect(options)}


def test_the_seed_s_case_needs_a_tie_for_each_gradient(edges: dict[str, Bisection]) -> None:
    bisection = edges["seed_flce[False-float32-True-1-4-32-16]"]
    assert (bisection.target, bisection.axis, bisection.is_unsettled) == ("h100", Axis.EDGES, False)
    rows = {row.label.strip(): row for row in bisection.rows}
    assert list(rows) == ["no tie", "ties 1, 2, 3", "without 1", "without 2", "without 3"]
    (answer,) = (row for row in bisection.rows if row.is_answer)
    assert answer.label == "ties 1, 2, 3"
    assert dict(answer.outputs) == {"bias": FRESH, "input": FRESH, "loss": FRESH, "weight": FRESH}
    assert rows["no tie"].word == "wrong"
    not_fresh = [
        {name for name, verdict in rows[f"without {number}"].outputs.items() if verdict is not FRESH}
        for number in (1, 2, 3)
    ]
    assert not_fresh == [{"input"}, {"weight"}, {"bias"}]
    assert {row.replay for row in bisection.rows} == {"agrees"}
    assert [text.split("`")[1] for _, text in answer.evidence] == ["multiply", "dot_general", "reduce"]
    assert bisection.answers[0] == "exactly 1 minimal set of ties, out of 3 possible, makes every output right"
    assert bisection.trials == 8


def test_no_tie_helps_if_the_partitioner_gathers_a_copy(edges: dict[str, Bisection]) -> None:
    bisection = edges["sharded_flce[vocabulary-trivial]"]
    assert [(row.label, row.word, row.is_answer) for row in bisection.rows] == [
        ("no tie", "wrong", False),
        ("all 1 tie", "wrong", False),
    ]
    assert not any(row.is_answer for row in bisection.rows)
    head, reason, *_, why = bisection.answers
    assert head.startswith("no set of ties makes every output right: even with the only possible tie, `bias`,")
    assert "the kernel's operand is gathered from it by %" in reason
    assert "%all-gather-start" in reason
    assert "(LD002)" in reason
    assert why.startswith("a tie only puts a reader after the kernel")
    assert not bisection.is_unsettled


def test_a_second_run_compiles_nothing_and_gives_the_same_answer(edges: dict[str, Bisection], cache: Path) -> None:
    options = api.BisectOptions(selectors=(SEED,), axis=Axis.EDGES, cache_directory=cache)
    (again,) = api.bisect(options)
    first = edges[again.case_id]
    assert again.compiled == 0
    assert (again.rows, again.answers, again.trials) == (first.rows, first.answers, first.trials)


def test_the_command_line_answers_in_json_with_exit_code_0(
    edges: dict[str, Bisection], run_cli: RunCli, tmp_path: Path
) -> None:
    outcome = run_cli("bisect", SHARDED, "--over", "edges", "--format", "json", cwd=tmp_path)
    assert outcome.code == 0, outcome.err
    (found,) = json.loads(outcome.out)["bisections"]
    expected = edges["sharded_flce[vocabulary-trivial]"]
    assert found["answers"] == list(expected.answers)
    assert [row["outputs"] for row in found["rows"]] == [
        {name: verdict.value for name, verdict in row.outputs.items()} for row in expected.rows
    ]


def test_ctrl_c_returns_the_answer_so_far(edges: dict[str, Bisection], cache: Path) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.best:
            raise KeyboardInterrupt

    options = api.BisectOptions(selectors=(SEED,), axis=Axis.EDGES, cache_directory=cache)
    (bisection,) = api.bisect(options, interrupt)
    assert bisection.interrupted
    assert [row.label for row in bisection.rows if row.is_answer] == ["ties 1, 2, 3"]


@pytest.mark.parametrize(
    ("axis", "changes", "message"),
    [
        (Axis.EDGES, {"device": True}, "`--device` works only with `--over mitigation`, not with `--over edges`"),
        (
            Axis.FLAGS,
            {"toolchains": ("seed",)},
            "`--toolchains` and `--create` work only with `--over toolchains`, not with `--over flags`",
        ),
        (
            Axis.TARGETS,
            {"create": True},
            "`--toolchains` and `--create` work only with `--over toolchains`, not with `--over targets`",
        ),
        (Axis.TOOLCHAINS, {"toolchain": "seed"}, "`--over toolchains` compares several toolchains"),
    ],
)
def test_options_without_meaning_for_the_axis_are_refused(axis: Axis, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        api.bisect(api.BisectOptions(selectors=(SEED,), axis=axis, **changes))


def test_bisecting_a_whole_folder_of_cases_is_refused(cache: Path) -> None:
    options = api.BisectOptions(selectors=(str(ROOT / "cases"),), axis=Axis.EDGES, cache_directory=cache)
    with pytest.raises(InputError, match=r"expected the id of a case, such as `.*`, but got \d+ cases"):
        api.bisect(options)
