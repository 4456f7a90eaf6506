"""Gives `inspect` hostile input: `python tools/fuzz_inspect.py SEED COUNT JOBS FOLDER...`.

The folders have dumps of real compilations, as protobuf and as text (tests/dumps/make_dumps.py makes such dumps), which
are mutated. Each input has to end in a report or in a LigerdiagError, within `SECONDS` of processor time and `MEMORY`
of a process. Any other input is kept in `fuzz-inspect-SEED/` and makes the exit code 1. Inputs run in batches, each
batch in a process of its own: otherwise the memory that one input fragments would count against a later one.
"""

import gc
import resource
import shutil
import signal
import sys
import tempfile
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from random import Random
from time import perf_counter, process_time

sys.path.insert(0, str(Path(__file__).parents[1]))

from ligerdiag import api
from ligerdiag.api.inspecting import InspectedModules, select_modules
from ligerdiag.artifacts.cache import Cache
from ligerdiag.dumps.text_worker import Translator
from ligerdiag.errors import LigerdiagError
from ligerdiag.hlo.xla_pb2 import HloProto
from ligerdiag.inspection.module_inspection import InspectionRequest, ModuleInspector
from ligerdiag.model.report import CheckReport, Noun
from ligerdiag.report.json import render_json
from ligerdiag.report.terminal.full_report import render_terminal
from tools.mutations import make_bomb, make_structure, mutate_bytes, mutate_fields, mutate_text, pack

SECONDS = 10
"""Processor seconds, so that other load on the machine does not count."""
ASLEEP = 600
"""Wall seconds after which an input that uses no processor time counts as hanging."""
BATCH = 100
"""Inputs per process."""
MEMORY = 2 << 30
OPTIMIZED = "module_0001.jit_f.sm_9.0_gpu_after_optimizations"
PROGRAM = "module_0001.jit_f.before_optimizations"


class Hang(BaseException):
    """An input took longer than SECONDS; not an Exception, so that no handler catches it."""


@dataclass(frozen=True)
class Seed:
    """One good dump: the bytes of its four files."""

    optimized: bytes
    program: bytes
    optimized_text: bytes
    program_text: bytes
    buffers_text: bytes


@dataclass
class Tally:
    """The outcomes of the inputs."""

    outcomes: Counter[str] = field(default_factory=Counter[str])
    kinds: Counter[str] = field(default_factory=Counter[str])
    slowest: float = 0.0
    slowest_kind: str = ""
    memory: int = 0
    """MiB of the largest process."""
    workers_memory: int = 0
    """MiB of the largest text worker."""
    failures: list[tuple[int, str, str]] = field(default_factory=list[tuple[int, str, str]])

    def add(self, other: "Tally") -> None:
        """Adds another batch."""
        self.outcomes += other.outcomes
        self.kinds += other.kinds
        self.failures += other.failures
        self.slowest, self.slowest_kind = max(
            (self.slowest, self.slowest_kind), (other.slowest, other.slowest_kind), key=lambda pair: pair[0]
        )
        self.memory, self.workers_memory = (
            max(self.memory, other.memory),
            max(self.workers_memory, other.workers_memory),
        )


def load_seeds(folders: list[Path]) -> list[Seed]:
    """Returns the last module of each folder."""

    def read(folder: Path, pattern: str) -> bytes:
        return sorted(folder.glob(pattern))[-1].read_bytes()

    return [
        Seed(
            optimized=read(folder, "*after_optimizations.hlo.pb"),
            program=read(folder, "*before_optimizations.hlo.pb"),
            optimized_text=read(folder, "*after_optimizations.txt"),
            program_text=read(folder, "*before_optimizations.txt"),
            buffers_text=read(folder, "*-buffer-assignment.txt"),
        )
        for folder in folders
    ]


def write_input(folder: Path, seed: Seed, random: Random) -> str:
    """Writes one hostile dump and returns its kind."""
    kind = random.choices(list(_KINDS), [weight for weight, _ in _KINDS.values()])[0]
    _KINDS[kind][1](folder, seed, random)
    return kind


def _write_proto(folder: Path, optimized: bytes, program: bytes | None) -> None:
    (folder / f"{OPTIMIZED}.hlo.pb").write_bytes(optimized)
    if program is not None:
        (folder / f"{PROGRAM}.hlo.pb").write_bytes(program)


def _bytes(folder: Path, seed: Seed, random: Random) -> None:
    which = random.randrange(3)
    optimized = mutate_bytes(seed.optimized, random) if which != 1 else seed.optimized
    _write_proto(folder, optimized, mutate_bytes(seed.program, random) if which else seed.program)


def _fields(folder: Path, seed: Seed, random: Random) -> None:
    protos = [HloProto(), HloProto()]
    which = random.randrange(3)
    for proto, data in zip(protos, (seed.optimized, seed.program), strict=True):
        proto.ParseFromString(data)
    optimized = mutate_fields(protos[0], random) if which != 1 else seed.optimized
    program = mutate_fields(protos[1], random) if which else seed.program
    _write_proto(folder, optimized, None if random.random() < 0.1 else program)


def _text(folder: Path, seed: Seed, random: Random) -> None:
    which = random.randrange(3)
    optimized = mutate_text(seed.optimized_text, random) if which != 1 else seed.optimized_text
    (folder / f"{OPTIMIZED}.txt").write_bytes(optimized)
    program = mutate_text(seed.program_text, random) if which == 1 else seed.program_text
    (folder / f"{PROGRAM}.txt").write_bytes(program)
    if random.random() < 0.5:
        (folder / f"{OPTIMIZED}-buffer-assignment.txt").write_bytes(seed.buffers_text)


def _buffers(folder: Path, seed: Seed, random: Random) -> None:
    proto = HloProto()
    proto.ParseFromString(seed.optimized)
    proto.ClearField("buffer_assignment")
    _write_proto(folder, proto.SerializeToString(), seed.program)
    (folder / f"{OPTIMIZED}-buffer-assignment.txt").write_bytes(mutate_text(seed.buffers_text, random))


def _packed(folder: Path, seed: Seed, random: Random) -> None:
    (folder / f"{OPTIMIZED}.hlo.pb.gz").write_bytes(pack(seed.optimized, random))
    (folder / f"{PROGRAM}.hlo.pb.gz").write_bytes(pack(seed.program, random))


def _structure(folder: Path, seed: Seed, random: Random) -> None:
    del seed
    proto = make_structure(random)
    program = HloProto()
    program.CopyFrom(proto)
    program.hlo_module.schedule.Clear()
    _write_proto(folder, proto.SerializeToString(), None if random.random() < 0.2 else program.SerializeToString())


def _mixed(folder: Path, seed: Seed, random: Random) -> None:
    """Returns files of other kinds under names that promise a module."""
    contents = (b"", b"HloModule", b"module @x {}", b"\x7fELF", b"BufferAssignment:\n", seed.optimized_text, seed.program,
                make_bomb(random), random.randbytes(1000), b"HloModule m\n" + b"(" * 100_000)  # fmt: skip
    endings = (".hlo.pb", ".txt", ".hlo.pb.gz", ".txt.gz")
    for name in (OPTIMIZED, PROGRAM):
        (folder / f"{name}{random.choice(endings)}").write_bytes(random.choice(contents))
    if random.random() < 0.3:
        (folder / f"{PROGRAM}.hlo").symlink_to(random.choice(("/dev/zero", "/etc/passwd", "nowhere", f"{PROGRAM}.hlo")))
    if random.random() < 0.2:
        (folder / f"{OPTIMIZED}.hlo.pb.d").mkdir()


_KINDS: dict[str, tuple[float, Callable[[Path, Seed, Random], None]]] = {
    "bytes": (25, _bytes),
    "fields": (35, _fields),
    "text": (10, _text),
    "buffers": (10, _buffers),
    "packed": (8, _packed),
    "structure": (4, _structure),
    "mixed": (3, _mixed),
}


def inspect_input(folder: Path, translator: Translator, cache: Cache) -> str:
    """Runs all of `inspect`, with a text worker that exists already; returns one word for the outcome."""
    try:
        inspected = InspectedModules(select_modules((folder,)))
        inspector = ModuleInspector(
            request=InspectionRequest(), translate=translator.translate, effects_cache=cache.root / "effects"
        )
        for _ in inspected.run(inspector):
            pass
    except LigerdiagError:
        return "input error"
    cases = tuple(api.conclude(judged) for judged in inspected.judged)
    targets = tuple({case.target: 0 for case in cases})
    report = CheckReport(cases=cases, targets=targets, toolchain="", notes=inspected.list_notes(), noun=Noun.MODULE)
    render_terminal(report, width=100, colour=True, verbose=True)
    render_json(report)
    return cases[0].status.value if cases else "not inspected"


@contextmanager
def limits() -> Iterator[None]:
    """Lets the process grow by at most MEMORY; `watched` ends an input that takes longer than SECONDS.

    A process without memory for a thread's first step would wait for it forever, so the bound is never below its
    current size.
    """

    def ring(number: int, frame: object) -> None:
        raise Hang

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    numbers = (signal.SIGUSR1, signal.SIGVTALRM)
    before = [signal.signal(number, ring) for number in numbers]
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextmanager
def watched(asleep: float = ASLEEP) -> Iterator[None]:
    """Raises Hang in this thread after SECONDS of processor time, or ASLEEP; does not use the alarm that `inspect`
    sets.
    """
    watch = threading.Timer(asleep, signal.pthread_kill, (threading.get_ident(), signal.SIGUSR1))
    watch.start()
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        watch.cancel()
        watch.join()


def run(seeds: list[Seed], first: int, count: int, cache: Cache, keep: Path | None = None) -> Tally:
    """Runs the inputs `first` to `first + count - 1`; after Ctrl-C returns the results so far."""
    tally = Tally()
    with suppress(KeyboardInterrupt), Translator(cache=cache, timeout=SECONDS / 2) as translator, limits():
        for number in range(first, first + count):
            random = Random(number)
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                kind = write_input(folder, random.choice(seeds), random)
                started = process_time()
                try:
                    with watched():
                        outcome = inspect_input(folder, translator, cache)
                except (Exception, Hang) as fault:
                    outcome = type(fault).__name__
                    where = "".join(traceback.format_exception(fault)[-3:])
                    tally.failures.append((number, kind, where))
                    if keep is not None:
                        shutil.copytree(folder, keep / str(number), symlinks=True, dirs_exist_ok=True)
                seconds = process_time() - started
                gc.collect()  # an aborted analysis leaves reference cycles, whose memory would count against later inputs
            tally.outcomes[outcome] += 1
            tally.kinds[kind] += 1
            if seconds > tally.slowest:
                tally.slowest, tally.slowest_kind = seconds, f"{kind} {number}"
    tally.memory, tally.workers_memory = (
        resource.getrusage(who).ru_maxrss >> 10 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return tally


def run_batches(
    folders: list[Path], first: int, count: int, jobs: int, keep: Path, *, cache: Path | None = None
) -> Tally:
    """Runs the inputs `first` to `first + count - 1`; a batch whose process dies is a failure."""
    total = Tally()
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        batches = {
            pool.submit(_run_batch, folders, start, min(BATCH, first + count - start), keep, cache): start
            for start in range(first, first + count, BATCH)
        }
        for future in as_completed(batches):
            try:
                total.add(future.result())
            except Exception as fault:
                total.failures.append((batches[future], "batch", f"{type(fault).__name__}: {fault}"))
            sys.stderr.write(f"{total.kinds.total()} of {count}, {len(total.failures)} failures\n")
    return total


def _run_batch(folders: list[Path], first: int, count: int, keep: Path, cache: Path | None) -> Tally:
    return run(load_seeds(folders), first, count, Cache(cache), keep)


def main() -> int:
    first, count, jobs, folders = *map(int, sys.argv[1:4]), [Path(name) for name in sys.argv[4:]]
    started = perf_counter()
    tally = run_batches(folders, first, count, jobs, Path(f"fuzz-inspect-{first}").absolute())
    lines = [
        f"{tally.kinds.total()} of {count} inputs in {perf_counter() - started:.0f} s: {dict(tally.kinds)}",
        f"ended: {dict(tally.outcomes.most_common())}",
        f"slowest {tally.slowest:.1f} s ({tally.slowest_kind}); "
        f"largest memory {tally.memory} MiB, of a worker {tally.workers_memory} MiB",
        *(f"--- {number} {kind}\n{where}" for number, kind, where in tally.failures[:30]),
        f"{len(tally.failures)} failures",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if tally.failures or tally.kinds.total() < count else 0


if __name__ == "__main__":
    sys.exit(main())
