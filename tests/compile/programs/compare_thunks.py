"""Compiles a program with and without tags; prints the kinds of its thunks in order, one line for each program."""

import os
import re
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER.parents[2]), str(FOLDER)]


def main() -> None:
    import doubling

    from ligerdiag.compile.lowering.lowered_case import lower_case

    description = (FOLDER.parents[2] / "ligerdiag/toolchains/targets/h100.pbtxt").read_text()
    for tagged in (True, False):
        program = lower_case(doubling.CASES[0], description, 90, tagged=tagged)
        assert ("#ld" in program.text) == tagged
        with tempfile.TemporaryDirectory() as folder:
            program.lowered.compile(compiler_options={"xla_dump_to": folder, "xla_dump_hlo_as_proto": True})
            (thunks,) = Path(folder).glob("*thunk_sequence.txt")
            print(" ".join(re.findall(r"\d+: (k\w+)", thunks.read_text())))


if __name__ == "__main__":
    from ligerdiag.toolchains.toolchain import current_toolchain, worker_environment

    os.environ.update(worker_environment(current_toolchain(), Path(tempfile.gettempdir())))
    main()
