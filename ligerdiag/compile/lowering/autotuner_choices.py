"""Lets XLA take the choices of its autotuner from a file, and reads from XLA's log which instructions got such a choice.

XLA loads such a file once in a process, keeps the entries until the process ends, and uses them in every compile. So a
worker that has compiled anything with other choices must not be used again. XLA says only in its log which instructions it
looked up; it reads the level of the log when it is loaded.
"""

import os
import re

from ligerdiag.errors import CompileError, UsedWorkerError
from ligerdiag.model.jobs import Flag
from ligerdiag.model.tuning import TUNING_LEVEL, TUNING_LOG, TunedInstruction, Tuning, TuningFile, TuningForm
from ligerdiag.toolchains.tuned_instructions import classify_tuned

USUAL_LEVEL = 4
"""The level of autotuning with which JAX compiles on a GPU."""
FORM = "xla_gpu_use_new_autotune_cache_format"
"""The compiler option that decides which of the two forms of tuning files (see `TuningForm`) XLA reads and writes. Older
versions of XLA know one form only.
"""
LOAD = "xla_gpu_load_autotune_results_from"

_ASKED = re.compile(r"Getting config for HLO: (?P<hlo>.*)")
_FOUND = re.compile(r"Found cached config for HLO: (?P<hlo>.*)")
_NAME = re.compile(r"(?:ROOT )?%?(?P<name>[^ ]+) = ")
_TARGET = re.compile(r'custom_call_target="(?P<word>[^"]*)"')
_KIND = re.compile(r'"fusion_backend_config":\{"kind":"(?P<word>[^"]*)"')
_used: list[str] = []
"""The digest of the choices with which this process has compiled: none before its first compile, one afterwards."""


def enter_tuning(file: TuningFile | None) -> None:
    """Prepares this process for compiles with the autotuner's choices in the file. Raises UsedWorkerError if the
    process has compiled with different choices, and CompileError if it was not started with the variables of
    `TUNING_LOG`.
    """
    digest = "" if file is None else file.copy_sha256
    if _used:
        if _used != [digest]:
            raise UsedWorkerError
        return
    if file is not None and any(os.environ.get(name) != value for name, value in TUNING_LOG.items()):
        raise CompileError(
            "this worker cannot find out which instructions XLA's autotuner looks up, because it was started without "
            "XLA's log"
        )
    _used.append(digest)


def choose_tuning_options(file: TuningFile) -> dict[str, Flag]:
    """Returns the compiler options that make XLA take the autotuner's choices from the file. If XLA_FLAGS sets the
    level of autotuning, the option for the level is left out.
    """
    options: dict[str, Flag] = {TUNING_LEVEL: USUAL_LEVEL, LOAD: file.copy, FORM: file.form is TuningForm.CACHE}
    given = os.environ.get("XLA_FLAGS", "")
    return {
        name: value for name, value in options.items() if name != TUNING_LEVEL or not re.search(rf"--{name}\b", given)
    }


def explain_fault(fault: str, file: TuningFile) -> str:
    """Returns why XLA cannot compile with the file, according to XLA's error message. Returns an empty string if the
    error has another cause.
    """
    if "Expect autotune result cache hit" in fault:
        return (
            f"this XLA needs an entry for every product and convolution, and `{file.name}` lacks an entry: record the "
            f"tuning of the case with this toolchain ({_clean(fault)})"
        )
    if "autotune results" in fault.lower():
        return f"XLA cannot read `{file.name}`: {_clean(fault)}"
    return ""


def drop_unknown_form(fault: str, options: dict[str, Flag], file: TuningFile) -> bool:
    """Removes the compiler option for the file's form (see `TuningForm`) if XLA's error says that XLA does not know the
    option. Returns whether it was removed. Raises CompileError if the file has the form with fingerprints, which such
    an XLA cannot read.

    fault: the text of XLA's error.
    """
    if FORM not in options or "No such compile option" not in fault or FORM not in fault:
        return False
    if options[FORM]:
        raise CompileError(
            "the XLA of this toolchain cannot read entries with fingerprints of a GPU, such as those of "
            f"`{file.name}`: "
            "record the tuning with this toolchain"
        )
    del options[FORM]
    return True


def read_choices(log: str, file: TuningFile) -> Tuning:
    """Reads from XLA's log which instructions had an entry in the file of the autotuner's choices.

    log: the output of one compile.
    """
    found = {_name(match["hlo"]) for match in _FOUND.finditer(log)}
    asked = {one.name: one for match in _ASKED.finditer(log) if (one := _describe(match["hlo"])).name}
    return Tuning(
        file=file.name,
        sha256=file.sha256,
        entries=file.entries,
        counted=bool(asked) or "No instructions to autotune" in log,
        recorded=tuple(one for name, one in asked.items() if name in found),
        open=tuple(one for name, one in asked.items() if name not in found),
    )


def _describe(hlo: str) -> TunedInstruction:
    target, kind = (match["word"] if (match := word.search(hlo)) else "" for word in (_TARGET, _KIND))
    return TunedInstruction(name=_name(hlo), kind=classify_tuned(target, kind))


def _name(hlo: str) -> str:
    match = _NAME.match(hlo)
    return match["name"] if match else ""


def _clean(fault: str) -> str:
    return " ".join(fault.split())[:300]
