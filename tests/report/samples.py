"""Hand-made reports, for tests of their output."""

from collections.abc import Mapping
from dataclasses import replace

from ligerdiag.model.findings import (
    Attribution,
    DeviceOutput,
    DeviceRun,
    Finding,
    LaunchNumbers,
    MemoryOperation,
    OutputNumbers,
    OutsideAccess,
    ProgramMeeting,
    Replay,
    ReplayState,
    Severity,
    SourceLine,
    Verdict,
)
from ligerdiag.model.memory import (
    Copy,
    CopyCause,
    CurvePoint,
    Donation,
    DonationFault,
    LiveValue,
    MemoryUse,
    Request,
    RequestKind,
)
from ligerdiag.model.report import CaseReport, CheckReport, Coverage, Identity, Inspection, Judged, Status
from ligerdiag.model.tuning import TunedInstruction, TunedKind, Tuning

OUTPUTS: Mapping[str, Verdict] = {
    "loss": Verdict.FRESH,
    "input": Verdict.STALE,
    "weight": Verdict.LATENT,
    "bias": Verdict.CLOBBERED,
}

COVERAGE = Coverage(
    instructions=120,
    kernels=1,
    hidden_writes=1,
    tags=80,
    tags_found=79,
    buffer_assignment=True,
    not_covered=("custom call `cublas$gemm` by its table entry",),
)


def make_finding(**changes: object) -> Finding:
    fields: dict[str, object] = {
        "rule": "LD002",
        "severity": Severity.ERROR,
        "message": "gradient of `bias` reads a copy of the logits that `ce_kernel` overwrote elsewhere",
        "outputs": ("bias",),
        "source": SourceLine(file="train.py", line=41, function="step"),
        "kernel": "ce_kernel",
        "operand": 0,
        "instructions": ("triton_kernel_call.2", "input_reduce_fusion"),
        "evidence": (
            ("write", "%triton_kernel_call.2 overwrites operand 0, %transpose, at logical time 14"),
            ("read", "%input_reduce_fusion reads %loop_add_fusion at logical time 22"),
        ),
        "help": "return the gradient as a declared output",
    }
    return Finding(**{**fields, **changes})  # type: ignore[arg-type]


def make_case(case_id: str = "flce[hidden]", status: Status = Status.EXPECTED, **changes: object) -> CaseReport:
    fields: dict[str, object] = {
        "id": case_id,
        "target": "h100",
        "toolchain": "default",
        "status": status,
        "expected": "hazard",
        "outputs": OUTPUTS,
        "coverage": COVERAGE,
        "seconds": 0.25,
    }
    return CaseReport(**{**fields, **changes})  # type: ignore[arg-type]


def make_tuned(name: str, kind: TunedKind = TunedKind.PRODUCT) -> TunedInstruction:
    return TunedInstruction(name=name, kind=kind)


def make_tuning(**changes: object) -> Tuning:
    """Returns the choices of a file that has an entry for a product and none for another product and a fusion."""
    fields: dict[str, object] = {
        "file": "h100.pbtxt",
        "sha256": "0123456789abcdef" * 4,
        "entries": 12,
        "recorded": (make_tuned("gemm_fusion_dot"),),
        "open": (make_tuned("gemm_fusion_dot.1"), make_tuned("loop_add_fusion", TunedKind.FUSION)),
    }
    return Tuning(**{**fields, **changes})  # type: ignore[arg-type]


def make_judged(case_id: str = "flce[hidden]", **changes: object) -> Judged:
    """Returns a case before its conclusion; `changes` apply to its identity or its inspection."""
    identity: dict[str, object] = {"id": case_id, "target": "h100", "toolchain": "default", "expected": "hazard"}
    inspection: dict[str, object] = {"outputs": OUTPUTS, "findings": (), "coverage": COVERAGE}
    for name, value in changes.items():
        (identity if name in Identity.__dataclass_fields__ else inspection)[name] = value
    return Judged(
        identity=Identity(**identity),  # type: ignore[arg-type]
        result=Inspection(**inspection),  # type: ignore[arg-type]
        seconds=0.25,
    )


def make_report(*cases: CaseReport, targets: tuple[str, ...] = ("h100",), **changes: object) -> CheckReport:
    fields: dict[str, object] = {
        "cases": cases,
        "targets": targets,
        "toolchain": "default",
        "versions": {"jax": "0.11.2"},
        "seconds": 1.5,
    }
    return CheckReport(**{**fields, **changes})  # type: ignore[arg-type]


def make_numbers(attribution: Attribution = Attribution.FRESH, **changes: object) -> OutputNumbers:
    """Returns numbers whose intended and stale values are far apart."""
    errors = {
        Attribution.FRESH: (3e-7, 1.0),
        Attribution.STALE: (12345.0, 0.0),
        Attribution.PARTLY_STALE: (6000.0, 0.7),
        Attribution.LOSSY: (0.25, 1.0),
        Attribution.NEITHER: (2.0, 3.0),
        Attribution.UNDECIDED: (1e-7, 1e-7),
    }
    error, stale_error = errors[attribution]
    fields: dict[str, object] = {
        "attribution": attribution,
        "error": error,
        "stale_error": stale_error,
        "distance": 1e-7 if attribution is Attribution.UNDECIDED else 12345.0,
        "tolerance": 1e-5,
    }
    return OutputNumbers(**{**fields, **changes})  # type: ignore[arg-type]


AGREEING: Mapping[str, OutputNumbers] = {
    "loss": make_numbers(),
    "input": make_numbers(Attribution.STALE),
    "weight": make_numbers(),
    "bias": make_numbers(Attribution.NEITHER),
}
"""Numbers that agree with `OUTPUTS`."""


def make_replay(outputs: Mapping[str, OutputNumbers] = AGREEING, **changes: object) -> Replay:
    fields: dict[str, object] = {"state": ReplayState.DONE, "outputs": outputs, "seconds": 0.5}
    return Replay(**{**fields, **changes})  # type: ignore[arg-type]


def make_refused(state: ReplayState, reason: str) -> Replay:
    return Replay(state=state, reason=reason, estimated_seconds=42.0, estimated_bytes=6 << 30)


def make_device(**changes: object) -> DeviceRun:
    fields: dict[str, object] = {
        "device": "NVIDIA H200",
        "count": 1,
        "runs": 3,
        "outputs": {
            "loss": DeviceOutput(errors=(1e-7, 2e-7), attribution=Attribution.FRESH, tolerance=1e-4),
            "input": DeviceOutput(
                errors=(12000.0, 13000.0), attribution=Attribution.STALE, tolerance=1e-4, replay_error=2e-6
            ),
        },
        "verdicts": {"loss": "fresh", "input": "stale"},
        "intended_from": "program order",
        "artifact": "/artifacts/0",
        "milliseconds": 0.2,
        "timed_runs": 20,
    }
    return DeviceRun(**{**fields, **changes})  # type: ignore[arg-type]


LAUNCH = LaunchNumbers(
    kernel="ce_kernel",
    instruction="triton_kernel_call.2",
    launches=2,
    unwritten={1: (3, 64)},
    racing={0: float("inf")},
    operands=2,
    order_difference=float("inf"),
    meetings=(
        ProgramMeeting(
            buffer=0,
            other_buffer=2,
            writer=0,
            other=1,
            other_writes=True,
            first_byte=0,
            bytes=4,
            line=SourceLine(file="train.py", line=7),
            other_line=None,
        ),
    ),
    outside=(
        OutsideAccess(
            kind=MemoryOperation.LOAD, buffer=None, size=0, first_byte=-4, width=4, elements=1, program=0, line=None
        ),
    ),
)


MIB = 1 << 20
UPDATE = SourceLine(file="train.py", line=41, function="step")
LOSS = SourceLine(file="train.py", line=52, function="loss")


def make_copy(**changes: object) -> Copy:
    """Returns a copy of an argument that is not donated, which costs 8 MiB."""
    fields: dict[str, object] = {
        "instruction": "copy.3",
        "bytes": 8 * MIB,
        "operand": "cache.1",
        "source": "argument `cache`",
        "target": "temporary memory",
        "cause": CopyCause.UNDONATED,
        "why": "`cache` is not donated, and the update overwrites it",
        "line": UPDATE,
    }
    return Copy(**{**fields, **changes})  # type: ignore[arg-type]


def make_memory(**changes: object) -> MemoryUse:
    """Returns 33 MiB at the peak, with every kind of entry."""
    steps = (("parameter.1", 24, None), ("copy.3", 32, UPDATE), ("fusion.7", 33, LOSS), ("tuple.9", 24, None))
    fields: dict[str, object] = {
        "arguments": 24 * MIB,
        "outputs": 16 * MIB,
        "aliased": 8 * MIB,
        "temporaries": MIB * 3 // 2,
        "constants": 64,
        "peak": 33 * MIB,
        "peak_at": "fusion.7",
        "peak_line": LOSS,
        "at_peak": (
            LiveValue(instruction="parameter.1", bytes=16 * MIB, about="argument `cache`", shape="f32[2048,2048]"),
            LiveValue(instruction="copy.3", bytes=8 * MIB, about="output `cache`", shape="f32[2048,1024]", line=UPDATE),
            LiveValue(instruction="parameter.2", bytes=8 * MIB, about="argument `w`", shape="f32[2048,1024]"),
            LiveValue(instruction="fusion.7", bytes=MIB // 2, about="temporary", shape="f32[131072]", line=LOSS),
            LiveValue(instruction="fusion.8", bytes=MIB // 4, about="temporary", shape="f32[65536]", line=LOSS),
        ),
        "curve": tuple(CurvePoint(instruction=name, bytes=size * MIB, line=line) for name, size, line in steps),
        "copies": (
            make_copy(),
            make_copy(
                instruction="copy.5",
                bytes=MIB,
                trips=8,
                source="temporary memory",
                target="output `state`",
                cause=CopyCause.READ_LATER,
                is_needed=True,
                why="the loss reads the old state",
                line=LOSS,
            ),
        ),
        "donations": (
            Donation(argument="w", bytes=8 * MIB, output="w"),
            Donation(
                argument="ids",
                bytes=4 * MIB,
                fault=DonationFault.DTYPE,
                why="the output of its shape is f32[1048576], not s32[1048576]",
                line=LOSS,
            ),
        ),
        "requests": (
            Request(kind=RequestKind.DONATION, instruction="tuple.9", bytes=8 * MIB, is_in_place=True),
            Request(kind=RequestKind.UPDATE, instruction="fusion.2", bytes=8 * MIB, is_in_place=False, line=UPDATE),
        ),
        "collectives": (("all-reduce", 2 * MIB),),
        "bandwidth": 3.35e12,
        "warning": "Some donated buffers were not usable: ShapedArray(int32[1048576]).",
    }
    return MemoryUse(**{**fields, **changes})  # type: ignore[arg-type]


IN_PLACE = make_memory(
    copies=(),
    donations=(Donation(argument="w", bytes=8 * MIB, output="w"),),
    requests=(
        Request(kind=RequestKind.DONATION, instruction="tuple.9", bytes=8 * MIB, is_in_place=True),
        Request(kind=RequestKind.DONATION, instruction="tuple.9", bytes=8 * MIB, is_in_place=True),
        Request(kind=RequestKind.UPDATE, instruction="fusion.2", bytes=8 * MIB, is_in_place=True, line=UPDATE),
    ),
    warning="",
)
"""Nothing is copied, and every donation is taken."""


def make_hostile_memory(evil: str) -> MemoryUse:
    """Returns memory in which that text is every name."""
    line = SourceLine(file=evil, line=3, function=evil)
    copy = make_copy(instruction=evil, operand=evil, source=evil, target=evil, why=evil, line=line)
    requests = tuple(replace(one, instruction=evil, line=line) for one in make_memory().requests)
    return make_memory(
        peak_at=evil,
        peak_line=line,
        at_peak=(LiveValue(instruction=evil, bytes=MIB, about=evil, shape=evil, line=line),),
        curve=(CurvePoint(instruction=evil, bytes=MIB, line=line), CurvePoint(instruction=evil, bytes=33 * MIB)),
        copies=(copy,),
        donations=(
            Donation(argument=evil, bytes=MIB, output=evil),
            Donation(argument=evil, bytes=MIB, fault=DonationFault.SHAPE, why=evil, line=line),
        ),
        requests=requests,
        collectives=((evil, MIB),),
        warning=evil,
    )
