"""A fake `ligerdiag.api`, so that no test of the command line compiles."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

import ligerdiag
from ligerdiag.api import RecordedTuning, describe_issue, describe_refusal, print_module
from ligerdiag.api.catalogue import StepState, TargetStatus, ToolchainStatus, ToolchainStep
from ligerdiag.api.last_run import RunPolicy
from ligerdiag.errors import InputError, LigerdiagError
from ligerdiag.model.report import CheckReport, Progress
from ligerdiag.report.comparisons import Bisection
from ligerdiag.run_options import BisectOptions, CheckOptions, TuningOptions
from ligerdiag.toolchains.gpu_targets import Target
from ligerdiag.toolchains.toolchain import Platform
from tests.report.bisection_samples import make_bisection
from tests.report.samples import make_case, make_report
from tools.running import Outcome


def make_status(name: str, *steps: ToolchainStep) -> ToolchainStatus:
    versions = {"jax": "0.4.34", "triton": "3.1.0"}
    return ToolchainStatus(
        name=name, about="for tests", python="3.12", versions=versions, directory=f"/cache/{name}", steps=steps
    )


TARGETS = {
    target.name: target
    for target in (
        Target(
            name="h100",
            description="# figures\ncuda {}\x1b[1m\n",
            compute_capability=90,
            path=Path("h100.pbtxt"),
            architecture="sm_90a",
            model="NVIDIA H100",
            memory=80 << 30,
            cores=132,
        ),
        Target(
            name="mi300",
            description="rocm {}\n",
            compute_capability=0,
            path=Path("mi300.pbtxt"),
            platform=Platform.ROCM,
            architecture="gfx942",
        ),
    )
}

STATUSES = {
    status.name: status
    for status in (
        make_status("whole", ToolchainStep(name="environment", state=StepState.WORKS, detail="/cache/whole")),
        make_status("absent", ToolchainStep(name="environment", state=StepState.MISSING, detail="not created yet")),
        make_status(
            "broken",
            ToolchainStep(name="environment", state=StepState.WORKS, detail="/cache/broken"),
            ToolchainStep(name="packages", state=StepState.BROKEN, detail="no triton\x1b[1m"),
        ),
    )
}


@dataclass
class FakeApi:
    """Returns `report`, or raises `error`, and records its arguments."""

    report: CheckReport = field(default_factory=lambda: make_report(make_case()))
    error: BaseException | None = None
    asked: list[CheckOptions] = field(default_factory=list)
    policies: list[RunPolicy | None] = field(default_factory=list)
    bisections: tuple[Bisection, ...] = field(default_factory=lambda: (make_bisection(),))
    bisected: list[BisectOptions] = field(default_factory=list)
    recorded: RecordedTuning = field(default_factory=lambda: RecordedTuning(content=b""))
    tuned: list[TuningOptions] = field(default_factory=list)

    def describe_refusal(self, options: CheckOptions, error: LigerdiagError) -> CheckReport:
        return describe_refusal(options, error)

    describe_issue = staticmethod(describe_issue)
    print_module = staticmethod(print_module)

    def check(
        self,
        options: CheckOptions,
        on_progress: Callable[[Progress], None] | None = None,
        policy: RunPolicy | None = None,
    ) -> CheckReport:
        self.asked.append(options)
        self.policies.append(policy)
        if self.error is not None:
            raise self.error
        if on_progress is not None:
            on_progress(Progress(phase="compile", event="started", done=0, total=1, case_id="flce[hidden]"))
        return self.report

    def bisect(
        self, asked: BisectOptions, on_progress: Callable[[Progress], None] | None = None
    ) -> tuple[Bisection, ...]:
        self.bisected.append(asked)
        if self.error is not None:
            raise self.error
        if on_progress is not None:
            on_progress(Progress(phase="try", event="started", done=1, total=4, case_id="a", best="right with 2 ties"))
        return self.bisections

    def record_tuning(
        self, asked: TuningOptions, on_progress: Callable[[Progress], None] | None = None
    ) -> RecordedTuning:
        self.tuned.append(asked)
        if self.error is not None:
            raise self.error
        return self.recorded

    def list_cases(self, selectors: Sequence[str]) -> tuple[SimpleNamespace, ...]:
        if selectors == ("nothing",):
            raise InputError("expected a case, glob, file or module:name but got `nothing`")
        case = SimpleNamespace(
            id="flce[\x1b[1mhidden]",
            about="the seed",
            expected={"w": "stale|latent"},
            mesh={"x": 8},
            file="cases/flce.py",
        )
        plain = SimpleNamespace(id="ce", about="", expected=None, mesh={}, file="cases/ce.py")
        return (case, plain)

    def load_target(self, name: str) -> Target:
        if name not in TARGETS:
            raise InputError(f"expected a target of {', '.join(TARGETS)} but got `{name}`")
        return TARGETS[name]

    def list_target_statuses(
        self, targets: Sequence[Target] = (), cache_directory: Path | None = None
    ) -> tuple[TargetStatus, ...]:
        return tuple(
            TargetStatus(
                target=target,
                here=("default", "whole") if target.compute_capability else (),
                elsewhere=("absent",) if target.compute_capability else (),
            )
            for target in targets or TARGETS.values()
        )

    def list_toolchains(self, cache_directory: Path | None = None) -> tuple[ToolchainStatus, ...]:
        return tuple(STATUSES.values())

    def create_toolchain(
        self, name: str, log: Callable[[str], None], cache_directory: Path | None = None
    ) -> ToolchainStatus:
        log(f"creating toolchain {name}\x1b[1m")
        return STATUSES[name]

    def diagnose_toolchain(self, name: str, target: str, cache_directory: Path | None = None) -> ToolchainStatus:
        return STATUSES[name]

    def list_rules(self) -> tuple[SimpleNamespace, ...]:
        return ()

    def get_rule(self, name: str) -> SimpleNamespace:
        raise InputError(f"expected a rule such as LD001 but got `{name}`")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    fake = FakeApi()
    monkeypatch.setitem(sys.modules, "ligerdiag.api", fake)  # type: ignore[arg-type]
    monkeypatch.setattr(ligerdiag, "api", fake, raising=False)
    return fake


type RunCommand = Callable[..., Outcome]


@pytest.fixture
def run_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunCommand:
    """Runs `ligerdiag` with these arguments in this process, through the real entry point."""
    from ligerdiag.cli.main import main

    def run(*words: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["ligerdiag", *words])
        with pytest.raises(SystemExit) as leaving:
            main()
        code = leaving.value.code
        captured = capsys.readouterr()
        return Outcome(0 if code is None else int(code), captured.out, captured.err)

    return run
