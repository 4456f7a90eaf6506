"""Messages to and from the two workers survive a round trip, or are refused with the field's name."""

import json
from dataclasses import asdict, replace
from math import inf, nan
from typing import Any

import pytest

from ligerdiag.codec import FieldError, parse_object, read_str
from ligerdiag.device.device_jobs import (
    ComparisonAnswer,
    ComparisonRequest,
    DeviceAnswer,
    DeviceRequest,
    make_comparison_job,
    make_device_job,
    parse_comparison_request,
    parse_device_request,
)
from ligerdiag.errors import CaseError, CompileError, InputError, LigerdiagError
from ligerdiag.model.findings import Attribution, DeviceOutput
from ligerdiag.model.jobs import CompileRequest, Job, Source, render_answer, render_error

FILE = Source(file="/project/mine.py", root="/project")
MODULE = Source(module="mine:CASES", root="/project")
RUN = DeviceRequest(
    compile=CompileRequest(
        source=FILE,
        case_id='flce["a b"\n-1]',
        target="device",
        description="",
        compute_capability=0,
        toolchain="default",
        versions={"jax": "0.11.2"},
        environment={"XLA_FLAGS": "--xla_dump_to=/tmp"},
        flags={"a": 1, "b": True, "c": 0.5, "d": "e"},
        fingerprint="f" * 64,
        artifacts="/cache/artifacts",
        scratch="/cache/artifacts/.tmp-1",
        not_before=1e9,
    ),
    results="/results",
    draws=3,
    runs=2,
)
COMPARISON = ComparisonRequest(source=MODULE, case_id="flce[1]", artifact="/artifacts/0", results="/results", draws=3)
RAN = DeviceAnswer(
    key="k" * 64,
    device="NVIDIA H200",
    count=8,
    milliseconds=0.25,
    timed_runs=20,
    unsteady={"loss": 0.0, "w": inf},
    errors={"loss": (1e-7, 0.1), "w": (nan, inf)},
)
OUTPUT = DeviceOutput(
    errors=(1e-7, 2.0), attribution=Attribution.STALE, tolerance=0.02, distance=0.5, replay_error=3e-6, unsteady=1e-9
)
RUN_JOB, COMPARISON_JOB = make_device_job(RUN, 60.0), make_comparison_job(COMPARISON, 61.0)


def render(answer: DeviceAnswer | ComparisonAnswer) -> dict[str, Any]:
    return json.loads(render_answer(answer))["answer"]


@pytest.mark.parametrize("source", [FILE, MODULE], ids=["file", "module"])
def test_a_request_survives_a_round_trip(source: Source) -> None:
    run = replace(RUN, compile=replace(RUN.compile, source=source))
    comparison = replace(COMPARISON, source=source)
    lines = [make_device_job(run, 60.0).render("/logs/1"), make_comparison_job(comparison, 60.0).render("/logs/1")]
    assert [line.index("\n") for line in lines] == [len(line) - 1 for line in lines], "one line each"
    jobs = [parse_object(line) for line in lines]
    assert [read_str(job, "log") for job in jobs] == ["/logs/1"] * 2
    assert parse_device_request(jobs[0]) == run
    assert parse_comparison_request(jobs[1]) == comparison


def test_a_job_is_named_after_its_case_and_leaves_nothing_of_a_compile() -> None:
    assert "`flce[1]`" in COMPARISON_JOB.name
    assert RUN.compile.case_id in RUN_JOB.name
    assert set(RUN_JOB.leftovers) == {RUN.compile.scratch, f"{RUN.compile.scratch}-old"}
    assert [job.timeout for job in (RUN_JOB, COMPARISON_JOB)] == [60.0, 61.0]
    assert (RUN_JOB.source, COMPARISON_JOB.source) == (FILE, MODULE)


@pytest.mark.parametrize(
    "request_fields",
    [
        {},
        {"request": []},
        {"request": {**asdict(RUN), "draws": "3"}},
        {"request": {**asdict(RUN), "runs": True}},
        {"request": {**asdict(RUN), "compile": None}},
        {"request": {**asdict(RUN), "results": 1}},
    ],
)
def test_a_malformed_device_request_is_refused(request_fields: dict[str, Any]) -> None:
    with pytest.raises(FieldError):
        parse_device_request(request_fields)


@pytest.mark.parametrize("name", ["source", "case_id", "artifact", "results", "draws"])
def test_a_request_to_compare_that_lacks_a_field_is_refused(name: str) -> None:
    fields = {key: value for key, value in json.loads(json.dumps(asdict(COMPARISON))).items() if key != name}
    with pytest.raises(FieldError, match=f"`{name}`"):
        parse_comparison_request({"request": fields})


@pytest.mark.parametrize("answer", [RAN, replace(RAN, errors={}, unsteady={}), replace(RAN, milliseconds=nan)])
def test_a_device_answer_survives_a_round_trip(answer: DeviceAnswer) -> None:
    line = render_answer(answer)
    assert line.index("\n") == len(line) - 1
    assert repr(RUN_JOB.parse(line)) == repr(answer), "NaN is not equal to itself, and reads the same"


@pytest.mark.parametrize("attribution", Attribution)
def test_every_attribution_survives_a_round_trip(attribution: Attribution) -> None:
    answer = ComparisonAnswer(outputs={"w": replace(OUTPUT, attribution=attribution)})
    assert render(answer)["outputs"]["w"]["attribution"] == attribution.value
    assert COMPARISON_JOB.parse(render_answer(answer)) == answer


@pytest.mark.parametrize(
    "answer",
    [
        ComparisonAnswer(outputs={"loss": OUTPUT, "w": replace(OUTPUT, replay_error=None)}),
        ComparisonAnswer(outputs={"w": replace(OUTPUT, replay_error=0.0)}),
        ComparisonAnswer(
            outputs={"w": replace(OUTPUT, errors=(nan, inf, 0.0), distance=inf, replay_error=nan, unsteady=inf)}
        ),
        ComparisonAnswer(outputs={"w": replace(OUTPUT, errors=())}),
        ComparisonAnswer(not_covered="opcode `fft`\n\x1b[2J \u2028"),
        ComparisonAnswer(),
    ],
    ids=["not replayed", "replayed without error", "not finite", "no draws", "not covered", "empty"],
)
def test_a_comparison_survives_a_round_trip(answer: ComparisonAnswer) -> None:
    line = render_answer(answer)
    assert line.index("\n") == len(line) - 1
    assert repr(COMPARISON_JOB.parse(line)) == repr(answer)


def test_an_answer_without_replay_error_was_not_replayed() -> None:
    fields = render(ComparisonAnswer(outputs={"w": OUTPUT}))
    del fields["outputs"]["w"]["replay_error"]
    assert COMPARISON_JOB.parse(json.dumps({"answer": fields})).outputs["w"].replay_error is None


@pytest.mark.parametrize("job", [RUN_JOB, COMPARISON_JOB], ids=["run", "comparison"])
@pytest.mark.parametrize("line", ["", "no JSON", "[]", "{}", '{"answer": []}', '{"answer": {}}', '{"answer": null}'])
def test_a_line_that_is_not_an_answer_is_refused(job: Job[Any], line: str) -> None:
    with pytest.raises(FieldError):
        job.parse(line)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("key", 1),
        ("device", None),
        ("count", 1.5),
        ("count", True),
        ("milliseconds", "fast"),
        ("timed_runs", 2.5),
        ("unsteady", []),
        ("unsteady", {"w": None}),
        ("errors", {"w": 0.5}),
        ("errors", {"w": [0.5, "0.5"]}),
        ("errors", {"w": [True]}),
    ],
)
def test_a_run_with_a_wrong_field_is_refused(name: str, value: object) -> None:
    with pytest.raises(FieldError, match=f"`({name}|w)`"):
        RUN_JOB.parse(json.dumps({"answer": {**render(RAN), name: value}}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("attribution", "rotten"),
        ("attribution", "FRESH"),
        ("attribution", None),
        ("errors", 0.5),
        ("errors", ["0.5"]),
        ("errors", None),
        ("tolerance", None),
        ("distance", "far"),
        ("replay_error", "0"),
        ("replay_error", []),
        ("unsteady", False),
    ],
)
def test_a_comparison_with_a_wrong_field_is_refused(name: str, value: object) -> None:
    fields = render(ComparisonAnswer(outputs={"w": OUTPUT}))
    fields["outputs"]["w"][name] = value
    with pytest.raises(FieldError, match=f"`{name}`"):
        COMPARISON_JOB.parse(json.dumps({"answer": fields}))


@pytest.mark.parametrize(("name", "value"), [("outputs", []), ("outputs", {"w": 1}), ("not_covered", None)])
def test_a_malformed_comparison_is_refused(name: str, value: object) -> None:
    with pytest.raises(FieldError, match=f"`({name}|w)`"):
        COMPARISON_JOB.parse(json.dumps({"answer": {**render(ComparisonAnswer()), name: value}}))


@pytest.mark.parametrize("job", [RUN_JOB, COMPARISON_JOB], ids=["run", "comparison"])
@pytest.mark.parametrize("kind", [InputError, CompileError, CaseError])
def test_a_workers_error_is_raised(job: Job[Any], kind: type[LigerdiagError]) -> None:
    with pytest.raises(kind, match=r"^needs 8 GPUs$"):
        job.parse(render_error(kind("needs 8 GPUs")))
