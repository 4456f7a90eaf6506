"""A toy transformer of 8 layers with two wrong kernel calls has two findings, in every format.

The expected findings are derived by hand. `norm_backward_kernel` overwrites its incoming gradient, once for each of the
17 norms; `loss_kernel` overwrites the logits, once. One line calls each kernel, and one line of each stores. Three of
these four lines are in none of XLA's stacks: the backward function runs under the forward pass's traceback, and the
stores are inside the kernels.
"""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ligerdiag import api
from ligerdiag.model.findings import Verdict
from ligerdiag.model.report import CheckReport
from ligerdiag.report.case_places import Repository
from ligerdiag.report.causes import list_calls, list_causes, list_reads
from ligerdiag.report.html.subject import compute_articles
from ligerdiag.report.json import render_json
from ligerdiag.report.junit import render_junit
from ligerdiag.report.markdown import render_github, render_markdown
from ligerdiag.report.sarif import render_sarif
from ligerdiag.report.terminal.full_report import render_terminal

FOLDER = Path(__file__).parent / "two_mistakes"
KERNELS = FOLDER / "toy_kernels.py"
LINES = KERNELS.read_text(encoding="utf-8").splitlines()
NORM_CALL = next(n for n, line in enumerate(LINES, 1) if "norms = jt.triton_call(" in line)
NORM_STORE = next(n for n, line in enumerate(LINES, 1) if line.endswith("# over dy"))
LOSS_CALL = next(n for n, line in enumerate(LINES, 1) if line == "    return jt.triton_call(")
LOSS_STORE = next(n for n, line in enumerate(LINES, 1) if line.endswith("# over the logits"))
MODEL = (FOLDER / "cases.py").read_text(encoding="utf-8").splitlines()
REPOSITORY = Repository(root=str(FOLDER), current=str(FOLDER))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> CheckReport:
    options = api.CheckOptions(
        selectors=(str(FOLDER / "cases.py"),),
        targets=("h100",),
        cache_directory=tmp_path_factory.mktemp("cache"),
        replay=False,
    )
    found = api.check(options)
    assert not found.cases[0].error, found.cases[0].log_tail
    return found


def test_there_are_two_causes_at_the_lines_that_call_the_kernels(report: CheckReport) -> None:
    norm, loss = list_causes(report.cases[0])
    places = [(cause.source.file, cause.source.line) for cause in (norm, loss) if cause.source is not None]
    assert places == [(str(KERNELS), NORM_CALL), (str(KERNELS), LOSS_CALL)]
    stores = [[store.line for store in cause.call.stores] for cause in (norm, loss) if cause.call is not None]
    assert stores == [[NORM_STORE], [LOSS_STORE]]
    assert (len(list_calls(norm)), len(list_calls(loss))) == (17, 1)


def test_every_rule_s_finding_belongs_to_exactly_one_cause(report: CheckReport) -> None:
    (case,) = report.cases
    parts = [part for cause in list_causes(case) for part in cause.parts]
    assert len(parts) == len(case.findings)
    assert {id(part) for part in parts} == {id(finding) for finding in case.findings}


def test_readers_in_the_backward_pass_name_their_forward_line(report: CheckReport) -> None:
    norm, _ = list_causes(report.cases[0])
    lines = {MODEL[line.line - 1].strip() for line, in_backward in list_reads(norm) if line is not None and in_backward}
    assert 'x = x + jax.nn.softmax(q @ k.T / WIDTH**0.5) @ v @ p["out"]' not in lines
    assert 'h = norm(x, p["before"])' in lines
    optimizer = [line for line, in_backward in list_reads(norm) if not in_backward]
    assert all(line is not None and "momentum" in MODEL[line.line - 1] for line in optimizer)


def test_the_terminal_shows_two_findings_in_at_most_60_lines(report: CheckReport) -> None:
    text = render_terminal(report)
    assert len(re.findall(r"^(?:error|warning|note)\[", text, re.MULTILINE)) == 2
    assert len(text.splitlines()) <= 60
    for line in (NORM_CALL, NORM_STORE, LOSS_CALL, LOSS_STORE):
        assert re.search(rf"--> \S*toy_kernels\.py:{line}(  |\n   \| ){re.escape(LINES[line - 1].strip())}", text)
    assert "17, in 8 layers, from the backward pass of " in text
    stale = sum(verdict is Verdict.STALE for verdict in report.cases[0].outputs.values())
    assert f"{stale} of 103 STALE" in text
    assert "`params.layers.*`" in text
    for label in ("write:", "read:"):
        said = [line for line in text.splitlines() if line.strip().startswith(label)]
        assert said
        assert all(re.search(r"\(\S+\.py:\d+[,)]", line) for line in said)


def test_the_help_is_a_patch_of_the_call(report: CheckReport) -> None:
    norm, _ = list_causes(report.cases[0])
    assert norm.help.startswith(
        "`norms, dx = call_in_place(dx, x, written=0, outputs=_sums(x), …)`, with `from ligerdiag"
    )
    assert 'mode="aliased"' not in render_terminal(report)


def test_every_format_has_two_findings(report: CheckReport) -> None:
    (case,) = report.cases
    found = json.loads(render_json(report))["cases"][0]["findings"]
    assert [one["rule"] for one in found] == [cause.rule for cause in list_causes(case)]
    assert "LD006" in found[0]["rules"]
    results = json.loads(render_sarif(report, repository=REPOSITORY, exit_code=1))["runs"][0]["results"]
    assert [one["locations"][0]["physicalLocation"]["region"]["startLine"] for one in results] == [NORM_CALL, LOSS_CALL]
    related = [place["physicalLocation"]["region"]["startLine"] for place in results[0]["relatedLocations"]]
    assert related[0] == NORM_STORE
    annotations = [line for line in render_github(report, repository=REPOSITORY).splitlines() if line.startswith("::")]
    assert len(annotations) == 2
    assert f"line={NORM_CALL}," in annotations[0]
    assert len(compute_articles(case, {})) == 2
    page = render_markdown(report, exit_code=1)
    assert len(re.findall(r"^(?:error|warning)\[LD", page, re.MULTILINE)) == 2
    failure = ElementTree.fromstring(
        render_junit(report, repository=REPOSITORY, fails=lambda case: True).partition("\n")[2]
    ).find(".//failure")
    assert failure is not None
    assert failure.get("message", "").count("`norm_backward_kernel`") == 1
