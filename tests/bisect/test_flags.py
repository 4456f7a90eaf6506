"""XLA flags on a small case: their effects on the program and on its verdicts."""

from pathlib import Path

import pytest

from ligerdiag.bisect import flags as flag_table
from ligerdiag.bisect.flags import bisect_flags, load_flags
from ligerdiag.bisect.trials import Trial, TrialRunner, compare_outputs
from ligerdiag.codec import FieldError
from ligerdiag.model.findings import Verdict
from ligerdiag.model.jobs import Variation
from ligerdiag.report.comparisons import Axis, Bisection
from ligerdiag.text import join_words
from ligerdiag.toolchains.gpu_targets import Target
from tests.bisect.conftest import Load, make_options
from tests.bisect.programs import HARMLESS, UNTRACEABLE

ROOT = Path(__file__).parents[2]
CASE = f"{ROOT}/cases/flce_modes.py::flce_modes[hidden-float32-True-1-4-32-16]"
TABLE = """
[[flag]]
name = "xla_gpu_enable_latency_hiding_scheduler"
values = [false, true]
family = "scheduling"
about = "the scheduler"

[[flag]]
name = "xla_gpu_enable_command_buffer"
values = [""]
family = "command buffers"
about = "which commands"

[[flag]]
name = "xla_gpu_temp_buffer_use_separate_color"
values = [true]
family = "buffers"
about = "where temporaries lie"

[[flag]]
name = "xla_gpu_enable_triton_gemm"
values = [false]
family = "GEMM choice"
about = "who multiplies"

[[flag]]
name = "xla_gpu_no_such_flag"
values = [1]
family = "nothing"
about = "of another XLA"

[[flag]]
name = "xla_gpu_command_buffer_scheduling_mode"
values = ["SIDEWAYS"]
family = "command buffers"
about = "no such value"
"""

pytestmark = pytest.mark.xdist_group("bisect")


def use_table(text: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
    path = folder / "flags.toml"
    path.write_text(text)
    patch.setattr(flag_table, "TABLE", path)


@pytest.fixture(scope="module")
def flags(runner: TrialRunner, h100: Target, tmp_path_factory: pytest.TempPathFactory) -> Bisection:
    (case,) = runner.discover([CASE])
    with pytest.MonkeyPatch.context() as patch:
        use_table(TABLE, tmp_path_factory.mktemp("flags"), patch)
        return bisect_flags(runner, case, h100, make_options(Axis.FLAGS, replay=True))


def test_each_value_has_a_row_with_its_effect_on_the_program(flags: Bisection) -> None:
    assert {row.label: row.cells.get("program") for row in flags.rows} == {
        "default": None,
        "xla_gpu_enable_latency_hiding_scheduler=false": "changed",
        "xla_gpu_enable_latency_hiding_scheduler=true": "same program",
        "xla_gpu_enable_command_buffer=''": "other launches",
        "xla_gpu_temp_buffer_use_separate_color=true": "other buffers",
        "xla_gpu_enable_triton_gemm=false": "changed",
        "xla_gpu_no_such_flag=1": "not known to this XLA",
        "xla_gpu_command_buffer_scheduling_mode=SIDEWAYS": "refused",
    }


def test_a_flag_that_changes_verdicts_is_an_answer_and_confirmed_by_numbers(flags: Bisection) -> None:
    (answer,) = (row for row in flags.rows if row.is_answer)
    assert answer.label == "xla_gpu_enable_latency_hiding_scheduler=false"
    assert answer.cells["change"] == "`bias` stale -> latent, `input` stale -> latent"
    assert (answer.replay, flags.rows[0].replay) == ("agrees", "agrees")
    assert {row.replay for row in flags.rows if row is not answer and row is not flags.rows[0]} == {""}
    named = f"`{answer.label}`"
    assert flags.answers == (
        "no flag makes every output right",
        f"right by luck, although nothing forces the order, with {named}",
        f"{answer.cells['change']} with {named}",
    )


def test_a_refused_flag_is_shown_without_making_the_answer_incomplete(flags: Bisection) -> None:
    errors = {row.label: row.error for row in flags.rows if row.error}
    assert errors["xla_gpu_no_such_flag=1"] == "not known to this XLA"
    assert "SIDEWAYS" in errors["xla_gpu_command_buffer_scheduling_mode=SIDEWAYS"]
    assert len(errors) == 2
    assert not flags.is_unsettled
    assert "not known to this XLA: `xla_gpu_no_such_flag=1`" in flags.notes


def test_a_case_that_no_flag_changes_is_reported_as_such(
    runner: TrialRunner, load: Load, h100: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_table(TABLE, tmp_path, monkeypatch)
    found = bisect_flags(runner, load(HARMLESS), h100, make_options(Axis.FLAGS, limit=4))
    assert found.answers == ("none of 3 settings changes a verdict: every output is fresh",)
    assert len(found.rows) == 4
    assert found.notes[0] == "of 7 settings the first 3 were tried: the limit is 4 trials"


def test_a_case_that_cannot_be_analysed_is_not_tried_with_flags(runner: TrialRunner, load: Load, h100: Target) -> None:
    found = bisect_flags(runner, load(UNTRACEABLE), h100, make_options(Axis.FLAGS))
    assert found.is_unsettled
    assert [row.label for row in found.rows] == ["default"]
    assert found.answers[0].startswith("the case could not be analysed without any flag: ")


def test_this_xla_has_every_flag_of_the_table_and_accepts_every_value(
    runner: TrialRunner, load: Load, h100: Target
) -> None:
    """All flags at once: XLA checks the options before it compiles, and the result of the compile does not matter here."""
    case = load(HARMLESS)
    values: dict[str, list[str | int | float | bool]] = {}
    for flag in load_flags():
        values.setdefault(flag.name, []).append(flag.value)
    for number in range(max(map(len, values.values()))):
        chosen = {name: choices[number % len(choices)] for name, choices in values.items()}
        outcome = runner.try_one(Trial(case=case, target=h100, variation=Variation(flags=chosen)))
        assert "compile option" not in outcome.error
        assert "While setting option" not in outcome.error


def test_the_table_is_curated_and_a_damaged_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = load_flags()
    assert len({flag.text for flag in flags}) == len(flags)
    assert {"scheduling", "fusion", "command buffers", "GEMM choice", "autotuning", "memory limit"} <= {
        flag.family for flag in flags
    }
    use_table('[[flag]]\nname = "a"\nvalues = [[1]]\nfamily = "b"\nabout = "c"\n', tmp_path, monkeypatch)
    with pytest.raises(FieldError, match="expected a plain value for flag `a`"):
        load_flags()


def test_only_outputs_of_both_sides_can_change() -> None:
    one = {"loss": Verdict.FRESH, "w": Verdict.STALE, "gone": Verdict.STALE}
    other = {"loss": Verdict.FRESH, "w": Verdict.LATENT, "new": Verdict.STALE}
    assert compare_outputs(one, other) == ("`w` stale -> latent",)
    assert [join_words(words, "or") for words in ((), ("a",), ("a", "b"), ("a", "b", "c"))] == [
        "",
        "a",
        "a or b",
        "a, b or c",
    ]
