"""Parts of pages: file names, sentences, broken lines, plots, packed text, headlines."""

import gzip
from base64 import b64decode

import pytest

from ligerdiag.model.findings import Attribution, OpaqueReplay, ReplayState, Verdict
from ligerdiag.model.report import CheckReport, Disagreement, Status
from ligerdiag.report.html.environment import compute_file_names, compute_lines, compute_packed, compute_shortened
from ligerdiag.report.html.figures import WIDTH, compute_errors_plot
from ligerdiag.report.html.fragment import render_fragment
from ligerdiag.report.html.headline import compute_headline
from ligerdiag.report.html.pages import render_case_html
from ligerdiag.report.html.prose import Part, compute_parts
from tests.report.html.view_samples import make_view
from tests.report.samples import make_case, make_device, make_numbers, make_replay


def test_file_names_are_safe_and_identify_the_case() -> None:
    (name,) = compute_file_names([make_case("seed_flce[False-float32/../x]")])
    assert name.startswith("seed_flce-False-float32-x.h100.")
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


def test_file_names_are_unique_whatever_the_ids_are() -> None:
    cases = [make_case(name) for name in ("a/b", "a-b", "a b", "", "x" * 300, "x" * 301, "A-B", "a-b", "index")]
    names = compute_file_names(cases)
    assert len({name.lower() for name in names}) == len(cases)
    assert max(map(len, names)) < 128
    assert "index.html" not in names


def test_file_names_do_not_depend_on_the_other_cases() -> None:
    cases = [make_case("a"), make_case("b"), make_case("c")]
    assert compute_file_names(cases)[1] == compute_file_names(cases[1:])[0]


def test_names_of_steps_become_links_and_backticks_become_code() -> None:
    parts = compute_parts("`bias` reads %fusion.1, not `%other`.", {"%fusion.1": 7})
    assert parts == (
        Part("bias", is_code=True),
        Part(" reads "),
        Part("%fusion.1", is_code=True, step=7),
        Part(", not "),
        Part("%other", is_code=True),
        Part("."),
    )


def test_a_full_stop_is_not_part_of_a_name() -> None:
    assert compute_parts("see %fusion.1.", {"%fusion.1": 7}) == (
        Part("see "),
        Part("%fusion.1", is_code=True, step=7),
        Part("."),
    )


@pytest.mark.parametrize("text", ["", "`", "``", "`a", "%", "100 % of it", "a `b` `c` d"])
def test_no_sentence_loses_a_word(text: str) -> None:
    assert "".join(part.text for part in compute_parts(text, {})) == text.replace("`b`", "b").replace(
        "`c`", "c"
    ).replace("``", "")


@pytest.mark.parametrize("columns", [8, 15, 30])
@pytest.mark.parametrize("text", ["%input_multiply_reduce_subtract_fusion.12", "%a", "x" * 80, "", "%all-gather-start"])
def test_lines_are_never_longer_or_more_than_there_is_room(text: str, columns: int) -> None:
    lines = compute_lines(text, columns, 2)
    assert len(lines) <= 2
    assert all(len(line) <= columns for line in lines)
    if len(text) <= columns:
        assert lines == (text,)


def test_a_text_that_does_not_fit_loses_its_middle() -> None:
    assert compute_shortened("%loop_add_fusion.17", 11) == "%loop…on.17"
    assert compute_lines("%input_multiply_reduce_subtract_fusion.12", 15, 2)[-1].endswith("fusion.12")


def test_errors_stay_on_the_axis_and_nan_has_no_dot() -> None:
    numbers = {
        "loss": make_numbers(error=0.0),
        "input": make_numbers(Attribution.STALE, error=float("inf")),
        "weight": make_numbers(error=float("nan")),
        "bias": make_numbers(Attribution.STALE, error=1e300),
    }
    plot = compute_errors_plot(make_case(replay=make_replay(numbers), device=make_device()))
    assert plot is not None
    assert all(0 <= dot.x <= WIDTH for row in plot.rows for dot in row.dots)
    kinds = {row.output: [dot.kind for dot in row.dots] for row in plot.rows}
    assert "replay" not in kinds["weight"]
    assert kinds["loss"].count("device") == 2
    weight = next(row for row in plot.rows if row.output == "weight")
    assert "not a number" in weight.sentences[0][1]


def test_a_larger_error_is_further_right() -> None:
    numbers = {"loss": make_numbers(error=1e-7), "input": make_numbers(error=1e-3)}
    plot = compute_errors_plot(make_case(replay=make_replay(numbers)))
    assert plot is not None
    small, large = (next(dot.x for dot in row.dots if dot.kind == "replay") for row in plot.rows)
    assert small < (plot.rows[0].tolerance or 0) < large


def test_opaque_numbers_have_a_dot_and_a_sentence_of_their_own() -> None:
    found = OpaqueReplay(state=ReplayState.DONE, outputs={"loss": make_numbers(Attribution.STALE, error=0.25)})
    plot = compute_errors_plot(make_case(replay=make_replay({"loss": make_numbers()}, opaque=found)))
    assert plot is not None
    (row,) = [row for row in plot.rows if row.output == "loss"]
    assert row.attribution == "fresh, stale with opaque functions"
    assert [dot.kind for dot in row.dots] == ["prediction", "replay", "opaque"]
    assert [source for source, _ in row.sentences] == ["replay", "opaque"]
    alone = compute_errors_plot(make_case(replay=make_replay({}, state=ReplayState.NOT_COVERED, opaque=found)))
    assert alone is not None
    (row,) = alone.rows
    assert [dot.kind for dot in row.dots] == ["prediction", "opaque"]
    assert row.tolerance is not None


def test_a_page_and_a_fragment_show_opaque_numbers() -> None:
    found = OpaqueReplay(
        state=ReplayState.DONE,
        outputs={"loss": make_numbers(Attribution.STALE, error=0.25)},
        reason="`input` is not finite",
    )
    case = make_case(replay=make_replay({}, state=ReplayState.NOT_COVERED, opaque=found))
    report = CheckReport(cases=(case,), targets=("h100",), toolchain="")
    assert "with opaque functions " in render_fragment(report)
    page = render_case_html(case, report)
    assert "replay with opaque functions" in page
    assert "`input` is not finite" in page


def test_there_is_no_plot_without_numbers() -> None:
    assert compute_errors_plot(make_case()) is None


def test_packed_text_unpacks_to_the_same_text() -> None:
    lines = ("HloModule m", "  %a = f32[] add()", "", "ü\ud800\x1b[31m")
    text = gzip.decompress(b64decode(compute_packed(lines))).decode("utf-8")
    assert text.split("\n") == ["HloModule m", "  %a = f32[] add()", "", "ü"]


def test_packed_text_is_small_and_the_same_every_time() -> None:
    lines = tuple(f"  %fusion.{n} = f32[64,32]{{1,0}} fusion(%fusion.{n - 1}), kind=kLoop" for n in range(20_000))
    assert b64decode(compute_packed(lines))[4:8] == bytes(4), "the time of packing"
    assert len(compute_packed(lines)) < sum(map(len, lines)) / 4


@pytest.mark.parametrize(
    ("outputs", "count"),
    [
        ({"a": Verdict.STALE}, "the output is wrong (stale)"),
        ({"a": Verdict.STALE, "b": Verdict.STALE}, "both outputs are wrong (stale)"),
        (dict.fromkeys("abc", Verdict.STALE), "all 3 outputs are wrong (stale)"),
        ({"a": Verdict.STALE, "b": Verdict.FRESH}, "1 of 2 outputs is wrong (stale): a"),
        ({"a": Verdict.LATENT, "b": Verdict.FRESH}, "1 of 2 outputs is right by luck: a"),
        ({"a": Verdict.UNKNOWN, "b": Verdict.FRESH}, "1 of 2 outputs could not be decided: a"),
        ({"a": Verdict.FRESH, "b": Verdict.FRESH}, "both outputs are fresh"),
    ],
)
def test_the_headline_counts_the_worst(outputs: dict[str, Verdict], count: str) -> None:
    assert compute_headline(make_case(outputs=outputs)).count == count


def test_the_headline_mentions_a_read_of_a_copy() -> None:
    view = make_view()
    accesses = tuple(access for access in view.accesses if access.step != 6)
    headline = compute_headline(make_case(view=make_view(accesses=accesses)))
    assert headline.plain.startswith("`ce_kernel` overwrites its operand behind XLA's back, and XLA reads another copy")
    assert headline.detail.startswith("`input` is computed from")


def test_a_disagreement_trusts_neither() -> None:
    contradiction = Disagreement(output="a", static=Verdict.FRESH, numbers=Attribution.STALE, message="`a` is both")
    case = make_case(status=Status.DISAGREEMENT, outputs={"a": Verdict.FRESH}, disagreements=(contradiction,))
    assert compute_headline(case).sign == "unknown"
    assert "trust neither" in compute_headline(case).detail
