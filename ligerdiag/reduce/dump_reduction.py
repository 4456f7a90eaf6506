"""Reduces the modules of a dump: searches for smaller modules for which `ligerdiag inspect` reports the same.

Nothing is compiled again. The schedule stays a schedule: the instructions that are left keep their order, their layouts and,
if the dump has the buffer assignment, their bytes.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from ligerdiag.dumps.content import Form, compute_form, read_content
from ligerdiag.dumps.find import ModuleFiles
from ligerdiag.dumps.text_worker import Translator
from ligerdiag.errors import ArtifactError, InputError, LigerdiagError
from ligerdiag.hlo.xla_pb2 import HloModuleProto, HloProto
from ligerdiag.model.report import Inspection
from ligerdiag.reduce.delta_debugging import split_parts
from ligerdiag.reduce.hlo_edits import (
    DumpedModules,
    ModuleSize,
    count_outputs,
    drop_parameters,
    drop_unread_calls,
    forget_removed_places,
    keep_outputs,
    list_removable,
    measure,
    remove_instructions,
)
from ligerdiag.reduce.judge import append_answer, read_answers
from ligerdiag.reduce.symptom import Symptom, choose_finding, has_finding
from ligerdiag.sandbox.inspector import SandboxedInspector

type PrintModule = Callable[[Path], str]
"""Returns the text of the HloProto in a file, as XLA prints it. Raises LigerdiagError if XLA refuses the module."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReducedDump:
    """The result of the reduction of a dump."""

    symptom: Symptom
    before: ModuleSize
    after: ModuleSize
    steps: tuple[tuple[str, ModuleSize], ...]
    candidates: int
    modules: DumpedModules
    files: ModuleFiles
    """The files of the reduced modules, with XLA's names, in the output folder of the reduction."""
    texts: tuple[str, ...]
    """The schedule and, if the dump has it, the module before optimizations, as text."""


@dataclass(slots=True, kw_only=True)
class DumpReducer:
    """Reduces one module of a dump; `run` searches, and `finish` returns the result."""

    files: ModuleFiles
    inspector: SandboxedInspector
    translator: Translator
    print_module: PrintModule
    folder: Path
    """The folder in which the files of the smaller modules are written."""
    steps_file: Path
    """File that keeps the answers, so that a second run can continue an interrupted one."""
    fingerprint: str
    """Hash that identifies this version of ligerdiag."""
    rule: str = ""
    report: Callable[[ModuleSize, str, int], None]
    """Called with the size of the smallest modules so far, the name of the step, and the number of candidates."""
    _best: DumpedModules | None = None
    _symptom: Symptom | None = None
    _before: ModuleSize | None = None
    _steps: list[tuple[str, ModuleSize]] = field(default_factory=list[tuple[str, ModuleSize]])
    _answers: dict[str, bool] = field(default_factory=dict[str, bool])

    def run(self) -> None:
        """Searches for the smallest modules. After an interrupt, `finish` returns the smallest ones found so far.

        Raises InputError if the module has no finding, if it cannot be converted to a protobuf and to text, or if it does
        not show the finding without the other files of the dump.
        """
        modules = self._load()
        self._before = measure(modules)
        original = self._inspect(self.files)
        if original is None:
            raise InputError(f"`{self.files.id}` has no finding: there is nothing to keep")
        self._symptom = choose_finding(original.findings, original.outputs, name=self.files.id, rule=self.rule)
        self._read_steps()
        if not self._ask(modules):
            raise InputError(
                f"`{self.files.id}` does not show the symptom ({self._symptom.describe()}) without the other files of the"
                " dump, so it cannot be reduced"
            )
        self._best = modules
        self._report("start")
        self._search()

    def _search(self) -> None:
        while True:
            before = self._best
            self._drop_outputs()
            assert self._best is not None
            self._try("fewer calls", drop_unread_calls(self._best))
            self._remove_instructions()
            self._try("fewer parameters", iter([drop_parameters(self._best)]))
            if self._best is before:
                return

    def _drop_outputs(self) -> None:
        """Keeps one output if that suffices; else drops halves, quarters, ... and at last single ones."""
        assert self._best is not None
        count = count_outputs(self._best)
        singles = (keep_outputs(self._best, {number}) for number in range(count))
        if count < 2 or self._try("one output", singles):
            return
        parts = 2
        while count > 1 and parts <= count:
            modules = self._best
            chunks = [set(chunk) for chunk in split_parts(range(count), parts)]
            smaller = (keep_outputs(modules, set(range(count)) - chunk) for chunk in chunks)
            parts = max(2, parts - 1) if self._try("fewer outputs", smaller) else parts * 2
            count = count_outputs(self._best)

    def _remove_instructions(self) -> None:
        """Delta debugging: removes halves, quarters, ... and at last single instructions of a schedule without a program."""
        assert self._best is not None
        parts = 1
        while True:
            ids = list_removable(self._best)
            if not ids or parts > len(ids):
                return
            modules = self._best
            smaller = (
                remove_instructions(modules, set(chunk), by_operand=by_operand)
                for chunk in split_parts(ids, parts)
                for by_operand in (True, False)
            )
            parts = max(1, parts - 1) if self._try("fewer instructions", smaller) else parts * 2

    def _try(self, step: str, candidates: Iterator[DumpedModules | None]) -> bool:
        """Makes the first smaller candidate that shows the symptom the best one; returns whether there was one."""
        assert self._best is not None
        size = measure(self._best)
        for candidate in candidates:
            if candidate is not None and measure(candidate) < size and self._ask(candidate):
                self._best = candidate
                self._steps.append((step, measure(candidate)))
                self._report(step)
                return True
        return False

    def _report(self, step: str) -> None:
        assert self._best is not None
        self.report(measure(self._best), step, len(self._answers))

    def _load(self) -> DumpedModules:
        optimized = self._load_proto(self.files.optimized[0])
        program: HloProto | None = None
        if self.files.program:
            path = self.files.program[0]
            if compute_form(read_content(path)) is Form.TEXT:
                raise InputError(
                    f"`{path.name}` is text, which has lost the order of the operations: dump with"
                    " `--xla_dump_hlo_as_proto`, or move it away to reduce the schedule alone"
                )
            program = self._load_proto(path)
        return DumpedModules(optimized=optimized, program=program)

    def _load_proto(self, path: Path) -> HloProto:
        data = read_content(path)
        if compute_form(data) is Form.TEXT:
            return HloProto(hlo_module=HloModuleProto.FromString(self.translator.translate(data, path.name)))
        try:
            proto = HloProto.FromString(data)
            if not proto.hlo_module.computations:
                proto = HloProto(hlo_module=HloModuleProto.FromString(data))
        except Exception as fault:
            raise ArtifactError(f"`{path.name}` is no HloProto") from fault
        if not proto.hlo_module.computations:
            raise ArtifactError(f"`{path.name}` holds no module")
        return proto

    def _ask(self, modules: DumpedModules) -> bool:
        """Returns whether the modules show the symptom and XLA's parser reads their text."""
        key = sha256(b"".join(one.SerializeToString(deterministic=True) for one in modules.protos)).hexdigest()
        if key not in self._answers:
            self._answers[key] = self._judge(modules)
            append_answer(self.steps_file, key, shows=self._answers[key])
        return self._answers[key]

    def _judge(self, modules: DumpedModules) -> bool:
        assert self._symptom is not None
        inspection = self._inspect(write_modules(modules, self.files, self.folder))
        if inspection is None or not has_finding(self._symptom, inspection.findings):
            return False
        try:
            return bool(self.print_texts(modules))
        except LigerdiagError:
            return False

    def print_texts(self, modules: DumpedModules) -> tuple[str, ...]:
        """Returns the text of each module, after checking that XLA's parser accepts it. Raises LigerdiagError if the parser
        does not.
        """
        files = write_modules(modules, self.files, self.folder)
        texts: list[str] = []
        for path in (*files.optimized, *files.program):
            text = self.print_module(path)
            self.translator.translate(text.encode(), path.name)
            texts.append(text)
        return tuple(texts)

    def _inspect(self, files: ModuleFiles) -> Inspection | None:
        judged = self.inspector.inspect_module(files).judged
        return judged.result if judged is not None and isinstance(judged.result, Inspection) else None

    def _read_steps(self) -> None:
        """Reads the answers of an earlier run about the same symptom, with the same ligerdiag."""
        described = json.dumps({"dump": self.files.id, "symptom": repr(self._symptom), "ligerdiag": self.fingerprint})
        self._answers |= read_answers(self.steps_file, described)

    def finish(self) -> ReducedDump | None:
        """Returns the smallest modules found so far; None if there are none yet."""
        if self._best is None or self._symptom is None or self._before is None:
            return None
        return ReducedDump(
            symptom=self._symptom,
            before=self._before,
            after=measure(self._best),
            steps=tuple(self._steps),
            candidates=len(self._answers),
            modules=self._best,
            files=self.files,
            texts=self.print_texts(self._best),
        )


def write_modules(modules: DumpedModules, files: ModuleFiles, folder: Path) -> ModuleFiles:
    """Writes the modules as XLA would dump them, with XLA's file names, and returns the files. files: those of the original
    dump.
    """
    folder.mkdir(parents=True, exist_ok=True)
    modules = forget_removed_places(modules)
    name = re.sub(r"[^\w-]", "_", modules.optimized.hlo_module.name)[:100]  # whoever wrote the dump chose it
    target = re.sub(r"[^\w.]", "_", files.target)
    target = f"{target}_gpu_" if target else ""
    optimized = folder / f"module_0001.{name}.{target}after_optimizations.hlo.pb"
    optimized.write_bytes(modules.optimized.SerializeToString(deterministic=True))
    program: tuple[Path, ...] = ()
    if modules.program is not None:
        program = (folder / f"module_0001.{name}.before_optimizations.hlo.pb",)
        program[0].write_bytes(modules.program.SerializeToString(deterministic=True))
    return ModuleFiles(id=f"module_0001.{name}", target=files.target, optimized=(optimized,), program=program)
