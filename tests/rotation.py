"""Takes turns with tests that are many of a kind: a run of all tests by day has a third of those below, the nightly run has
the others. A run of some files or tests has all of theirs.

The commit decides which third, so that a test which fails on a commit fails on it again, and three commits in a row
have most of them. A run ends with a line that says whose turn it was; LIGERDIAG_TEST_TURN=N (from 0) repeats it. The rest
count as `nightly` in this run. A test of a kind below says more about one type, one opcode, one kernel or one form of a
function than another one. Beside them all examples of rules and all daily cases are compiled, judged, replayed and
compared on every commit, which run the same code.
"""

import os
import re
import subprocess
from collections.abc import Mapping
from fnmatch import translate
from pathlib import Path
from zlib import crc32

TURNS = 3
VARIABLE = "LIGERDIAG_TEST_TURN"

PATTERNS = (
    # functions of a running program, in one of many forms; tests/api/test_function.py and test_stages.py run every day
    "tests/api/test_callables.py::*",
    "tests/api/test_stages.py::test_a_derivative_that_may_*[[]*",
    # the newest packages: a newcomer's programs, newer calls and random programs with Refs run every day
    "tests/hazards/test_newest_examples.py::test_an_example_gets_*[[]*",
    # one opcode or operation of Triton for one type: every case and every example is replayed, and agrees with its verdict
    "tests/replay/opcodes/*[[]*",
    "tests/replay/triton_ir/test_against_interpreter.py::*[[]*",
    "tests/replay/triton_ir/test_two_evaluators.py::*[[]*",
    "tests/replay/triton_ir/test_project_kernels.py::*[[]*",
    "tests/replay/test_ordinary_programs.py::test_replay_equals_xla_cpu[[]*",
    "tests/replay/test_grid_variants.py::*[[]*",
    # a kernel of this repository in one mode, type or size: cases/ has each of them, with a reference
    "tests/kernels/test_gradients.py::*[[]*",
    "tests/kernels/test_cross_entropy.py::*[[]*",
    "tests/kernels/test_fused_linear_cross_entropy.py::*[[]*",
    "tests/kernels/test_small_kernels.py::*[[]*",
    # one operation on indices, or one library's kernel
    "tests/effects/test_index_values.py::*[[]*",
    "tests/effects/test_library_programs.py::*[[]*",
    # a question about devices, an optimizer or a type of array, of which the same table has others
    "tests/compile/test_device_queries.py::test_the_kernel_in_the_gpu_s_branch_*[[]*",
    "tests/compile/test_normalized_case.py::*[[]*",
    "tests/compile/test_array_arguments.py::*[[]*",
    # the forms of a dump, and the ways to misuse one
    "tests/dumps/test_replay.py::test_arguments_that_do_not_fit_*[[]*",
    "tests/dumps/test_stablehlo.py::test_a_hidden_write_is_found_*[[]*",
    # a command in one of many moments, formats or shells; tests/cli/test_command_line.py runs every day
    "tests/cli/test_interrupted_imports.py::*[[]*",
    "tests/cli/test_completion.py::*[[]*",
    "tests/cli/test_output.py::*[[]*",
    "tests/api/test_formats.py::*[[]*",
    # a caller in one of many forms; tests/fix/test_search.py and test_command.py run every day
    "tests/fix/test_callers.py::*[[]*",
    "tests/fix/test_uses.py::*[[]*",
    "tests/reduce/test_printing.py::*[[]*",
    # pages whose commands also occur on other pages, besides README.md and first-steps.md
    "tests/docs/test_commands.py::test_a_page_has_*[[][!Rf]*",
)
"""fnmatch patterns of node ids."""

_ANY = re.compile("|".join(map(translate, PATTERNS)))


ALL = "all"


def choose_turn(environ: Mapping[str, str], root: Path) -> int:
    """Returns the turn of a run, from 0: the one in the environment, else that of the commit; 0 outside of a repository."""
    given = environ.get(VARIABLE, ALL)
    if given != ALL:
        return int(given) % TURNS
    try:
        asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=False)
    except OSError:  # there is no git
        return 0
    return 0 if asked.returncode else int(asked.stdout[:12], 16) % TURNS


def waits(nodeid: str, turn: int | None) -> bool:
    """Returns whether the test takes turns and it is not its turn. turn: None if the run has all turns."""
    return turn is not None and _ANY.match(nodeid) is not None and crc32(nodeid.encode()) % TURNS != turn


def current_turn() -> int | None:
    """Returns the turn of this run, which the process that starts it puts into the environment; None if it has all."""
    given = os.environ.get(VARIABLE, ALL)
    return None if given == ALL else int(given) % TURNS
