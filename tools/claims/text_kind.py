"""Mutates dumps as HLO text: edits them, or prints mutated protobufs, with or without a buffer assignment."""

import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from random import Random

from ligerdiag.artifacts.cache import Cache
from ligerdiag.dumps.find import find_modules
from ligerdiag.dumps.text_worker import Translator
from ligerdiag.inspection.module_inspection import InspectionRequest, ModuleInspector
from tools.claims import kernels, metadata
from tools.claims.judging import Judged
from tools.claims.mutation import MUTATIONS, Claim
from tools.claims.pairs import Pair, load_pair
from tools.claims.texts import TEXTS, spoil_buffers
from tools.claims.trial import Described, Trial, describe, make_trial

NAMES = {
    "optimized": "module_0001.jit_f.sm_9.0a_gpu_after_optimizations.txt",
    "program": "module_0001.jit_f.before_optimizations.txt",
    "buffers": "module_0001.jit_f.sm_9.0a_gpu_after_optimizations-buffer-assignment.txt",
}
_PATTERNS = {
    "optimized": "*after_optimizations.txt",
    "program": "*before_optimizations.txt",
    "buffers": "*after_optimizations-buffer-assignment.txt",
}
_SPOIL_BUFFERS = 0.15
_PRINT = 0.2
"""How often buffers are mutated, and how often text is printed from mutated protobufs."""
SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TextDump:
    """One compilation as text."""

    name: str
    files: dict[str, str]
    pair: Pair


def load_text_dump(folder: Path) -> TextDump:
    """Returns the last module of a folder that XLA dumped into as text and as protobuf."""
    files = {part: sorted(folder.glob(pattern))[-1].read_text() for part, pattern in _PATTERNS.items()}
    return TextDump(name=folder.name, files=files, pair=load_pair(folder))


class TextKind:
    """Mutates texts."""

    name = "text"

    def __init__(self, dumps: Sequence[TextDump], cache: Cache) -> None:
        self._dumps = dumps
        self._translator = Translator(cache=cache, timeout=SECONDS)
        self._inspector = ModuleInspector(
            request=InspectionRequest(), translate=self._translator.translate, effects_cache=cache.root / "effects"
        )
        self._printer = _Printer()
        self._mutations = [
            one
            for one in MUTATIONS.values()
            if one.weight and one.apply.__module__ in (metadata.__name__, kernels.__name__)
        ]
        self._before = {
            (dump.name, has_buffers): self._judge(_leave_out(dump.files, has_buffers)).judged
            for dump in dumps
            for has_buffers in (False, True)
        }

    def run(self, random: Random) -> Trial:
        """Runs one mutation of one of the three texts, or of the protobuf that two of them are printed from."""
        dump, has_buffers = random.choice(self._dumps), random.random() < 0.5
        files = _leave_out(dump.files, has_buffers)
        draw = random.random()
        claims: list[Claim]
        if draw < _PRINT:
            words, claims, files = self._print_mutated(dump, files, random)
        elif has_buffers and draw < _PRINT + _SPOIL_BUFFERS:
            files["buffers"] = spoil_buffers(files["buffers"], random)
            words, claims = "spoil_buffers", [Claim.NOT_FRESH]
        else:
            chosen = random.choices(list(TEXTS.values()), [one.weight for one in TEXTS.values()])[0]
            for part in random.choice((("optimized",), ("program",), ("optimized", "program"))):
                files[part] = chosen.apply(files[part], random)
            words, claims = chosen.name, [] if chosen.claim is None else [chosen.claim]
        return make_trial(f"{dump.name} {words}", self._before[dump.name, has_buffers], self._judge(files), claims)

    def close(self) -> None:
        """Ends the workers."""
        self._translator.__exit__(None, None, None)
        self._printer.close()

    def _print_mutated(
        self, dump: TextDump, files: dict[str, str], random: Random
    ) -> tuple[str, list[Claim], dict[str, str]]:
        pair = dump.pair.copy()
        chosen = random.choices(self._mutations, [one.weight for one in self._mutations])[0]
        with suppress(IndexError, KeyError, ValueError):
            chosen.apply(pair, random)
        texts = self._printer.print_modules([proto.hlo_module.SerializeToString() for proto in pair.protos])
        if not texts:
            return f"{chosen.name} (not printable)", [], files
        return f"printed {chosen.name}", [chosen.claim], files | dict(zip(("optimized", "program"), texts, strict=True))

    def _judge(self, files: dict[str, str]) -> Described:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for part, text in files.items():
                (folder / NAMES[part]).write_bytes(text.encode("utf-8", "surrogatepass"))
            (module,) = find_modules(folder).modules
            outcome = self._inspector.inspect_module(module)
        if outcome.judged is None:
            return Described(judged=Judged(refusal="; ".join(outcome.notes) or "no custom calls"))
        return describe(outcome.judged)


def _leave_out(files: dict[str, str], has_buffers: bool) -> dict[str, str]:
    return {part: text for part, text in files.items() if has_buffers or part != "buffers"}


class _Printer:
    """Prints protobufs as jaxlib does, in a process that XLA may abort."""

    def __init__(self) -> None:
        self._process: ProcessPoolExecutor | None = None

    def print_modules(self, protos: Sequence[bytes]) -> list[str]:
        """Returns texts; () if XLA refuses one."""
        if self._process is None:
            self._process = ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        try:
            return self._process.submit(print_modules, protos).result()
        except BrokenProcessPool:
            self.close()
            return []

    def close(self) -> None:
        if self._process is not None:
            self._process.shutdown()
            self._process = None


def print_modules(protos: Sequence[bytes]) -> list[str]:
    """Returns the text of each serialized HloModuleProto; nothing for a refused one."""
    from jaxlib import _jax

    try:
        return [_jax.HloModule.from_serialized_hlo_module_proto(proto).to_string() for proto in protos]
    except Exception:  # XLA's own exceptions have no common base
        return []
