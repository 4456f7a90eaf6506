"""Takes turns with tests that are many of a kind: a run of all tests by day has a quarter of those below, the nightly run
has the others. A run of some files or tests has all of theirs.

The commit decides which quarter, so that a test which fails on a commit fails on it again, and a few commits have all of
them. The parameters of one function have the four turns one after another, so a function with four or more has some
of them on every commit. A run ends with a line that says whose turn it was; LIGERDIAG_TEST_TURN=N (from 0) repeats it.
The rest count as `nightly` in this run. A test of a kind below says more about one type, one opcode, one kernel or one
form of a function than another one. Beside them all bad examples of rules and some ninety cases are compiled, judged,
replayed and compared on every commit, which run the same code.
"""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from fnmatch import translate
from pathlib import Path
from zlib import crc32

TURNS = 4
VARIABLE = "LIGERDIAG_TEST_TURN"

PATTERNS = (
    # functions of a running program, in one of many forms; tests/api/test_function.py and test_stages.py run every day
    "tests/api/test_callables.py::*",
    "tests/api/test_stages.py::test_a_derivative_that_may_*[[]*",
    # the newest packages: a newcomer's programs run every day, and a quarter of the cases and of random programs with Refs
    "tests/newcomer/test_newer_calls.py::*[[]daily-*",
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
    # pages whose commands also occur on other pages, besides README.md
    "tests/docs/test_commands.py::test_a_page_has_*[[][!R]*",
    "tests/docs/test_plain_install.py::test_a_page_s_own_files_*",
    "tests/docs/test_page_addresses.py::test_explain_and_sarif_*[[]*",
    # a kernel of others, run on numbers: how pointers flow and what a text says is tested every day, and cases are replayed
    "tests/effects/test_truth.py::*[[]*",
    # one train step: the programs of tests/memory/programs, one for each cause, run every day
    "tests/memory/test_steps.py::test_the_findings_name_*[[]*",
    # a model or a train step in one mode; its kernels run every day in smaller programs, in cases/ and on a mesh, too
    "tests/models/test_models.py::*[[]*",
    "tests/models/test_fix.py::*[[]*",
    "tests/kernels/test_llama_grid.py::test_gradients_are_fresh_if_*[[]*",
    # Refs that JAX leaves in place, and the newest packages: stores in loops, a newcomer's and random Refs run every day
    "tests/analysis/test_moved_refs.py::test_a_kernel_beside_a_ref_*",
    "tests/analysis/test_moved_refs.py::test_kernels_that_write_refs_are_judged_*",
    # one function of JAX that is missing, of several that the same code looks up
    "tests/analysis/test_unseen_moves.py::*[[]*",
    "tests/hazards/test_help.py::test_applying_the_help_*[[]newest]",
    # a program for `fix` or `reduce`; test_command.py of fix, one hidden write and one reduction run every day
    "tests/fix/test_search.py::test_callers_of_a_helper_*",
    "tests/fix/test_search.py::test_a_branch_on_the_numbers_*",
    "tests/fix/test_search.py::test_a_call_with_unpacked_arguments_*",
    "tests/fix/test_search.py::test_a_cure_that_saves_memory_*",
    "tests/fix/test_search.py::test_a_pallas_kernel_*",
    "tests/fix/test_search.py::test_an_output_that_is_updated_*",
    "tests/fix/test_search.py::test_opaque_functions_*",
    "tests/reduce/test_reduce.py::test_a_folded_cast_*",
    "tests/reduce/test_reduce.py::test_an_error_of_the_compile_*",
    # one width, one stream, one moment or one kind of end
    "tests/cli/test_streams.py::*[[]*",
    "tests/cli/test_terminal.py::*[[]*",
    "tests/cli/test_ended_run.py::*[[]*",
    "tests/pytest_plugin/test_harmless_logs.py::*[[]*",
    "tests/tools/test_kill_runs.py::*[[]*",
    # replays of programs that tests/analysis compiles and judges every day
    "tests/replay/test_agreement.py::*[[]*",
    # forms of a dump of one program; the numbers and verdicts of all dumps are compared with those of check every day
    "tests/dumps/test_text.py::*[[]*",
    "tests/dumps/test_inspect.py::test_a_dump_gives_*[[]*",
    "tests/dumps/test_inspect.py::test_without_tags_*[[]*",
    "tests/dumps/test_replay.py::test_snapshots_*[[]*",
    # one way to ask for opaque functions, to stop a run, or to call a kernel: tests/replay/test_opaque_*.py,
    # tests/cli/test_command_line.py and tests/device/test_opcheck_code.py run every day
    "tests/api/test_opaque_replay.py::*",
    "tests/cli/test_first_failure.py::*",
    "tests/device/test_opcheck_runs.py::*",
    # a store that is not there, or not empty: tests/sweep has the same campaigns in folders
    "tests/sweep/test_bucket.py::*",
)
"""fnmatch patterns of node ids."""

CASES = (
    # kernels that work row by row, with a hidden and a declared write: the losses, seeds, loops and meshes are daily
    *(f"{name}[[]*" for name in ("rope", "geglu", "swiglu", "rms_norm", "layer_norm", "kl_div", "jsd")),
    "fused_linear_jsd[[]*",
    "cross_entropy_modes[[]*",
    # the same buffers in one of several forms
    "accumulated_sum[[]*",
    "donated_outputs[[]*",
    "in_flight[[]*",
    "loop_carry[[]*",
    *(
        f"{name}[[]*"
        for name in ("saved_residual", "two_losses", "partial_write", "undonated_parameter", "barrier_copy")
    ),
    *(f"{name}[[]*" for name in ("mosaic", "chunked_flce", "pallas_cross_entropy")),
)
"""fnmatch patterns of ids of cases that take turns, see tests/case_levels.py."""
NAMED_CASES = {
    "accumulated_sum[twice-hidden]",
    "accumulated_sum[unused-hidden]",
    "geglu[hidden]",
    "barrier_copy[kernel-hidden]",
    "chunked_flce[aliased-two]",
    "loop_carry[descent-hidden]",
    "mosaic[stores-hidden]",
    "partial_write[range-pallas-out_of_place]",
    "partial_write[range-triton-out_of_place]",
    "rope[hidden]",
    "saved_residual[exp-perplexity-hidden]",
    "saved_residual[softmax-perplexity-hidden]",
    "saved_residual[tanh-perplexity-hidden]",
    "swiglu[hidden]",
    "two_losses[other-hidden]",
    "two_losses[rows-hidden]",
    "two_losses[same-hidden]",
    "undonated_parameter[kept-hidden]",
}
"""Ids of cases that take no turns, because tests of tests/api name them."""

_ANY = re.compile("|".join(map(translate, PATTERNS)))
_CASES = re.compile("|".join(map(translate, CASES)))


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


def waits(nodeid: str, number: int, turn: int | None) -> bool:
    """Returns whether the test takes turns and it is not its turn. number: how many sets of parameters its function has
    before this one. turn: None if the run has all turns.
    """
    return turn is not None and _ANY.match(nodeid) is not None and _compute_turn(nodeid, number) != turn


def case_waits(case_id: str, number: int, turn: int | None) -> bool:
    """Returns whether the daily case takes turns and it is not its turn. number: how many cases its file has before it."""
    if turn is None or case_id in NAMED_CASES or _CASES.match(case_id) is None:
        return False
    return _compute_turn(case_id, number) != turn


def _compute_turn(name: str, number: int) -> int:
    return (crc32(name.partition("[")[0].encode()) + number) % TURNS


def take_turns[T](things: Sequence[T], turn: int | None) -> tuple[T, ...]:
    """Returns the things of one test that have this turn, every fourth and at least one; all if turn is None."""
    return tuple(things if turn is None else things[turn % len(things) :: TURNS])


def current_turn() -> int | None:
    """Returns the turn of this run, which the process that starts it puts into the environment; None if it has all."""
    given = os.environ.get(VARIABLE, ALL)
    return None if given == ALL else int(given) % TURNS
