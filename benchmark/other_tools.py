"""What other tools say of the same bad programs, as far as they run without a GPU.

- XLA's verifier: the compile runs it on the module between its passes, so a compile that ends has passed it.
- JAX's checks of mutable arrays (`jax_mutable_array_checks`, on by default): they raise while a program with Refs is traced.
- Pallas' interpret mode with race detection: runs the program on the CPU, and reports races of one kernel's threads.
- PyTorch's mutation analysis of a Triton kernel: names the pointers that the kernel writes. It needs a Python of its own.

None says which value was meant, so none but the third looks at more than one call.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmark.judging import Outcome
from benchmark.report import Entry, Kind
from ligerdiag.model.case import Case
from ligerdiag.model.report import CaseReport, Status

VERIFIER = "XLA's verifier"
REF_CHECKS = "jax_mutable_array_checks"
INTERPRETER = "Pallas' race detection"
TORCH = "PyTorch's mutation analysis"
TOOLS = (VERIFIER, REF_CHECKS, INTERPRETER, TORCH)
NOT_FOR_IT = "-"
"""The tool has nothing to look at: no module, no Ref, no Pallas kernel, no Triton kernel."""

_HIDDEN = {Kind.STALE, Kind.CLOBBERED, Kind.OVERLAP, Kind.WRONG_DECLARATION, Kind.LOST_UPDATE}
"""Kinds of mistake whose root is an undeclared write, which an analysis of the kernel can name."""
_SECONDS = 300


def ask_other_tools(
    entries: Sequence[Entry], reports: Mapping[str, CaseReport], *, torch: str = ""
) -> dict[str, dict[str, str]]:
    """Returns the answers of `TOOLS` on each entry by its name. reports: ligerdiag's, by the id of the case. torch: a
    Python that has torch and triton; its analysis does not run without one.
    """
    answers: dict[str, dict[str, str]] = {}
    by_torch = _ask_torch(entries, reports, torch)
    for entry in entries:
        report = reports.get(entry.bad.id) if isinstance(entry.bad, Case) else None
        text = entry.file.read_text()
        answers[entry.name] = {
            VERIFIER: _ask_verifier(entry, report),
            REF_CHECKS: _ask_ref_checks(report, text),
            INTERPRETER: _ask_interpreter(entry) if "pallas_call(" in text else NOT_FOR_IT,
            TORCH: by_torch[entry.name],
        }
    return answers


def _ask_verifier(entry: Entry, report: CaseReport | None) -> str:
    if entry.bad is None:
        return NOT_FOR_IT
    if isinstance(entry.bad, Path):
        return _parse_by_xla(entry.bad)
    if report is None or report.status is Status.ERROR:
        said = "" if report is None else report.error + report.log_tail
        return (Outcome.FOUND if "verifier" in said.lower() else Outcome.NOT_RUN).value
    return Outcome.MISSED.value


def _parse_by_xla(path: Path) -> str:
    """Returns whether XLA refuses to read the module. A process of its own does that, because XLA may abort it."""
    code = (
        "import pathlib, sys; from jaxlib import _hlo; _hlo.hlo_module_from_text(pathlib.Path(sys.argv[1]).read_text())"
    )
    done = _run([sys.executable, "-c", code, str(path)])
    return (Outcome.FOUND if done.returncode else Outcome.MISSED).value


def _ask_ref_checks(report: CaseReport | None, text: str) -> str:
    if report is None or "new_ref(" not in text:
        return NOT_FOR_IT
    is_refused = report.status is Status.ERROR and "ref" in report.error.lower()
    return (Outcome.FOUND if is_refused else Outcome.MISSED).value


def _ask_interpreter(entry: Entry) -> str:
    done = _run([sys.executable, "-m", "benchmark.interpret_worker", entry.name])
    if done.returncode:
        return "refuses"
    return (Outcome.FOUND if json.loads(done.stdout.splitlines()[-1])["races"] else Outcome.MISSED).value


def _ask_torch(entries: Sequence[Entry], reports: Mapping[str, CaseReport], torch: str) -> dict[str, str]:
    """Returns the answer on each entry. One process analyses all kernels, because it takes seconds to start."""
    from benchmark.kernel_texts import list_kernels

    answers = {entry.name: NOT_FOR_IT for entry in entries}
    kernels: list[dict[str, object]] = []
    owners: list[Entry] = []
    for entry in entries:
        report = reports.get(entry.bad.id) if isinstance(entry.bad, Case) else None
        if report is None or not report.artifact or report.status is Status.ERROR:
            continue
        found = list_kernels(Path(report.artifact))
        kernels += [{"ttir": one.ttir, "undeclared": one.undeclared} for one in found]
        owners += [entry] * len(found)
    answers |= {entry.name: (Outcome.MISSED if torch else Outcome.NOT_RUN).value for entry in owners}
    if not torch or not kernels:
        return answers
    worker = Path(__file__).with_name("torch_worker.py")
    done = subprocess.run(
        [torch, str(worker)], input=json.dumps(kernels), capture_output=True, text=True, check=True, timeout=_SECONDS
    )
    for entry, written in zip(owners, json.loads(done.stdout.splitlines()[-1]), strict=True):
        if written is None:
            answers[entry.name] = "refuses"
        elif written and set(entry.report.kinds) & _HIDDEN:
            answers[entry.name] = Outcome.FOUND.value
    return answers


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}
    return subprocess.run(
        command,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
        stdin=subprocess.DEVNULL,
    )
