"""A replay's record survives a round trip through a line of JSON; a malformed record is refused."""

import json
from dataclasses import MISSING, fields, replace
from typing import Any

import pytest

from ligerdiag.codec import FieldError, encode_record, read_record
from ligerdiag.model.findings import (
    Attribution,
    CutLoop,
    LaunchNumbers,
    MemoryOperation,
    OpaqueReplay,
    OrderChange,
    OrderNumbers,
    OrderTried,
    OutputNumbers,
    OutsideAccess,
    ProgramMeeting,
    Replay,
    ReplayState,
    SourceLine,
    UnwrittenRead,
    WorstElement,
)
from ligerdiag.model.jobs import Source, parse_answer, render_answer
from ligerdiag.replay.opaque_calls import OpaqueCall, OpaqueCalls, OpaqueUse
from ligerdiag.replay.replay_worker import (
    OpaqueAnswer,
    OpaqueRequest,
    ReplayAnswer,
    ReplayRequest,
    make_opaque_job,
    make_replay_job,
    parse_replay,
    parse_replay_request,
    render_replay,
)

NUMBERS = OutputNumbers(
    attribution=Attribution.PARTLY_STALE,
    error=float("inf"),
    stale_error=0.5,
    distance=float("-inf"),
    tolerance=1e-5,
    rows_fresh=1,
    rows_stale=2,
    rows=3,
    nan_as_stale=True,
    worst=WorstElement(dtype="bfloat16", shape=(2, 3), index=(1, 2), intended=0.5, actual=float("-inf")),
)
MEETING = ProgramMeeting(
    buffer=1,
    other_buffer=0,
    writer=2,
    other=3,
    other_writes=True,
    first_byte=64,
    bytes=32,
    line=SourceLine(file="k.py", line=7),
    other_line=None,
)
OUTSIDE = OutsideAccess(
    kind=MemoryOperation.STORE,
    buffer=None,
    size=64,
    first_byte=-4,
    width=4,
    elements=2,
    program=1,
    line=SourceLine(file="k.py", line=8, function="kernel"),
    hit="fusion.2",
    is_later=True,
)
OLD_READ = UnwrittenRead(
    output=0, bytes=4, size=64, is_atomic=True, program=1, first_byte=8, line=SourceLine(file="k.py", line=9)
)
OPAQUE = OpaqueReplay(
    state=ReplayState.DONE,
    outputs={"w": NUMBERS},
    kernels=("k",),
    unreached=("fusion.3",),
    cut=(CutLoop(instruction="while.2", line=None, iterations=32, ran=2),),
    seconds=0.5,
    estimated_seconds=1.5,
    estimated_bytes=1 << 20,
)
REPLAY = Replay(
    state=ReplayState.DONE,
    outputs={"w": NUMBERS, "b": replace(NUMBERS, attribution=Attribution.FRESH, error=0.0)},
    reference={"w": 0.25},
    reference_tolerance={"w": 1e-3},
    rounded={"w": 0.5},
    changed_inputs={"x": 1.0},
    second_run={"w": 2.0},
    cut=(CutLoop(instruction="while.1", line=SourceLine(file="mine.py", line=9), ran=2, iterations=32),),
    unreached=("fusion.3",),
    launches=(
        LaunchNumbers(
            kernel="k",
            instruction="call.1",
            launches=2,
            checked=1,
            unwritten={1: (3, 64)},
            racing={0: 0.5},
            operands=1,
            order_difference=0.25,
            meetings=(MEETING,),
            outside=(OUTSIDE,),
            line=SourceLine(file="mine.py", line=5),
            unwritten_later=(1,),
            old_reads=(OLD_READ,),
            order_tried=OrderTried.TOGETHER,
            reached_by_order=("w",),
            reached_by_garbage=(),
        ),
    ),
    orders=OrderNumbers(
        tried=2, changed={"w": OrderChange(order="kernels last (1)", error=0.5)}, left_out=1, not_covered="too large"
    ),
    opaque=OPAQUE,
    seconds=1.5,
    estimated_seconds=2.5,
    estimated_bytes=1 << 40,
)
CALL = OpaqueCall(id=7, function="f", uses=(OpaqueUse(reads=True, writes=True, blends=True, start=2, stop=5),))
OPAQUE_REQUEST = OpaqueRequest(
    source=Source(file="/a/mine.py", root="/a"),
    case_id="mine[1]",
    artifact="/c/0",
    calls=OpaqueCalls(program=(CALL,), optimized=(CALL, CALL), kernels=("k",), not_covered=""),
    cut=("while.2",),
)
REQUEST = ReplayRequest(source=Source(file="/a/mine.py", root="/a"), case_id="mine[1]", artifact="/c/0", rows=True)


def test_a_record_is_the_same_after_a_round_trip() -> None:
    assert parse_replay(json.loads(json.dumps(render_replay(REPLAY)))) == REPLAY


@pytest.mark.parametrize("record", [REPLAY, OPAQUE, NUMBERS, REPLAY.launches[0], OUTSIDE])
def test_the_record_of_the_round_trip_leaves_no_field_at_its_default(record: Any) -> None:
    at_default = [f.name for f in fields(record) if f.default is not MISSING and getattr(record, f.name) == f.default]
    assert at_default in ([], ["reason", "cached"]), "add the new field to `replay.record` and `report.json_numbers`"


def test_nan_survives_a_round_trip() -> None:
    nan = replace(REPLAY, outputs={"w": replace(NUMBERS, error=float("nan"))})
    error = parse_replay(json.loads(json.dumps(render_replay(nan)))).outputs["w"].error
    assert error != error  # noqa: PLR0124 - that is what NaN is


@pytest.mark.parametrize(
    "name", ["state", "outputs", "launches", "unreached", "seconds", "estimated_bytes", "reference"]
)
@pytest.mark.parametrize("value", [None, "nonsense", [1], {"w": None}])
def test_a_malformed_record_is_refused_with_the_field_s_name(name: str, value: object) -> None:
    with pytest.raises(FieldError):
        parse_replay({**render_replay(REPLAY), name: value})


def test_a_request_reaches_the_worker_unchanged() -> None:
    job = make_replay_job(REQUEST, 7.0)
    assert (job.source, job.name, job.timeout) == (REQUEST.source, "the replay", 7.0)
    assert parse_replay_request(json.loads(job.render("/tmp/log"))) == REQUEST
    assert json.loads(job.render("/tmp/log"))["log"] == "/tmp/log"


def test_an_answer_reaches_the_parent_unchanged() -> None:
    answer = ReplayAnswer(replay=REPLAY, dependencies={"/a/mine.py": "0"})
    line = render_answer(answer)
    assert line.count("\n") == 1
    assert make_replay_job(REQUEST, 7.0).parse(line) == answer
    assert "replay" in parse_answer(line)


def test_a_replay_with_opaque_functions_is_asked_for_and_answered_unchanged() -> None:
    job = make_opaque_job(OPAQUE_REQUEST, 7.0)
    line = json.loads(job.render("/tmp/log"))
    assert line["job"] == OpaqueRequest.__name__
    assert read_record(OpaqueRequest, line, "request") == OPAQUE_REQUEST
    answer = OpaqueAnswer(replay=OPAQUE, dependencies={"/a/mine.py": "0"})
    assert job.parse(json.dumps({"answer": encode_record(answer)})) == answer
