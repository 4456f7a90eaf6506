"""Run by hand, where the libraries are installed: compiles each of `library_programs` for an H100 and keeps what XLA wrote.

python -m tests.effects.record_library_programs [LIBRARY …]

Per case `recorded/LIBRARY-CASE.tar.xz` gets the program and the schedule of XLA's dump, in which paths of this machine are
overwritten by as many other letters, because machine code has paths, too. `warp-kernels.json.xz` beside them gets the
kernels of Warp, of which a dump has nothing but the target.
"""

import io
import json
import lzma
import os
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_SKIP_CUDA_CONSTRAINTS_CHECK", "1")

from ligerdiag.codec import encode_record
from ligerdiag.compile.cases.loader import CaseLoader
from ligerdiag.compile.lowering.lowered_case import configure_locations, import_kernel_libraries, lower_case
from ligerdiag.compile.lowering.other_kernels import drop_instantiation
from ligerdiag.model.jobs import Source
from ligerdiag.toolchains.gpu_targets import load_target

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).with_name("library_programs")
RECORDED = Path(__file__).with_name("recorded")
LIBRARIES = ("cutile", "cute", "warp", "tvm", "gluon")
_KEPT = ("before_optimizations.hlo.pb", "gpu_after_optimizations.hlo.pb")


def main() -> None:
    target = load_target("h100")
    assembler = ROOT / "ligerdiag/compile/lowering/assembler"  # no machine code, as in a compile worker
    os.environ["PATH"] = os.pathsep.join((str(assembler / "bin"), os.environ.get("PATH", os.defpath)))
    import_kernel_libraries()
    drop_instantiation()
    configure_locations(str(ROOT / "ligerdiag"))
    RECORDED.mkdir(exist_ok=True)
    kernels: list[Any] = []
    for library in sys.argv[1:] or LIBRARIES:
        source = Source(file=str(PROGRAMS / f"{library}_programs.py"), root=str(ROOT))
        for name, case in CaseLoader().load(source).items():
            if case.effects:
                continue  # the same program, with a declaration
            lowered = lower_case(case, target.description, target.compute_capability)
            with tempfile.TemporaryDirectory() as folder:
                options = {
                    "xla_dump_to": folder,
                    "xla_dump_hlo_as_proto": True,
                    "xla_gpu_cuda_data_dir": str(assembler),
                }
                lowered.lowered.compile(compiler_options=options)
                _keep(Path(folder), RECORDED / f"{library}-{name}.tar.xz")
            kernels += lowered.library_kernels
    if not kernels:
        return
    unique = {kernel.target: kernel for kernel in kernels}
    text = json.dumps({"library_kernels": encode_record(tuple(unique.values()))}).encode()
    (RECORDED / "warp-kernels.json.xz").write_bytes(lzma.compress(_hide(text)))


def _keep(folder: Path, archive: Path) -> None:
    with tarfile.open(archive, "w:xz") as out:
        for path in sorted(folder.iterdir()):
            if path.name.endswith(_KEPT):
                data = _hide(path.read_bytes())
                entry = tarfile.TarInfo(path.name)
                entry.size = len(data)
                out.addfile(entry, io.BytesIO(data))


def _hide(data: bytes) -> bytes:
    """Returns the data with each path of this machine overwritten, as long as before."""
    packages = sysconfig.get_paths()["purelib"].removesuffix("/site-packages")
    folders = (packages, str(ROOT), os.__file__.removesuffix("/os.py"))
    for folder in sorted(folders, key=len, reverse=True):
        data = data.replace(folder.encode(), b"/" + b"x" * (len(folder) - 1))
    return data


if __name__ == "__main__":
    main()
