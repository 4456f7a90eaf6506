"""Thunk sequences as XLA printed them (jax 0.11.2, 0.10.2 and 0.4.34), shortened."""

import pytest

from ligerdiag.errors import ArtifactError
from ligerdiag.hlo.thunks import CommandOrder, Thunk, ThunkSequence, parse_command_order, parse_thunks

SCANNED = """\
000: kCommandBuffer [source       | next=004 (1)] 
    001: kCopy         [source | sink] kCopy
    003: kCustomKernel [source | sink] loop_broadcast_fusion grid: [2048, 1, 1] threads: [128, 1, 1]  shared_memory: 0 bytes
004: kWhile         [prev=003 (1) | sink        ]   
condition:
    005: kCustomKernel [source | sink] loop_compare_fusion grid: [1, 1, 1] threads: [1, 1, 1]  shared_memory: 0 bytes
  body:
    010: kCustomKernel [prev=006 (2) | next=011 (1)] gemm_fusion_dot_general_ld12_1 grid: [128, 1, 1] threads: [64, 1, 1]
    011: kAsyncStart   [prev=010 (1) | sink        ] stream=computation_stream[1], async_id=11
        013: kDynamicSliceFusion [source | sink] params=1, results=1
            012: kCopy [source | sink] kCopy
    014: kCustomCall   [prev=010 (2) | next=015 (1)] kCustomCall
    017: kAsyncDone    [source       | sink        ] async_id=11
018: kCustomKernel [prev=004 (1) | sink        ] input_reduce_fusion grid: [1, 1, 1] threads: [32, 1, 1]
"""

BRANCHED = """\
021: kConditional   [prev=003 (1) | next=022 (1)]   
  false_branch:
    004: kCopy         [source       | next=008 (4)] kCopy
    008: kWhile        [prev=007 (1) | next=019 (1)]       
condition:
        009: kCustomKernel [source | sink] loop_compare_fusion grid: [1, 1, 1] threads: [1, 1, 1]  shared_memory: 0 bytes
      body:
        010: kCustomKernel  [source       | next=011 (1)] loop_tanh_fusion grid: [2, 1, 1] threads: [128, 1, 1]
    019: kCustomKernel [prev=008 (1) | sink        ] loop_reverse_fusion grid: [2, 1, 1] threads: [128, 1, 1]
  true_branch:
    020: kCustomKernel [source | sink] triton_softmax_3 grid: [16, 1, 1] threads: [32, 1, 1]  shared_memory: 0 bytes
022: kCustomCall    [prev=021 (1) | sink        ] kCustomCall
"""

BEFORE_2025 = """\
kCopy  \t
kKernel\t, kernel = input_reduce_select_fusion, launch dimensions = blocks: {1, 1, 1}, threads/block: {32, 1, 1}
kWhile \t
condition:
    kKernel\t, kernel = loop_compare_fusion, launch dimensions = blocks: {1, 1, 1}, threads/block: {1, 1, 1}
  body:
    kCommandBuffer\t
    kCustomCall   \t
kKernel\t, kernel = input_reduce_fusion, launch dimensions = blocks: {1, 1, 1}, threads/block: {32, 1, 1}
"""


def outline(sequence: ThunkSequence) -> list[object]:
    """Returns the ids; a thunk that contains others is a pair of its id and their outline by label."""
    return [
        (thunk.id, {label: outline(inner) for label, inner in thunk.nested}) if thunk.nested else thunk.id
        for thunk in sequence.thunks
    ]


def find(text: str, id: int) -> Thunk:
    return next(thunk for thunk in parse_thunks(text).walk() if thunk.id == id)


def test_indented_thunks_run_inside_the_thunk_above() -> None:
    inner = [10, (11, {"": [(13, {"": [12]})]}), 14, 17]
    assert outline(parse_thunks(SCANNED)) == [(0, {"": [1, 3]}), (4, {"condition": [5], "body": inner}), 18]


def test_a_loop_in_a_branch_does_not_end_the_branch() -> None:
    loop = (8, {"condition": [9], "body": [10]})
    assert outline(parse_thunks(BRANCHED)) == [(21, {"false_branch": [4, loop, 19], "true_branch": [20]}), 22]


def test_a_branch_that_launches_nothing_is_still_a_branch() -> None:
    text = "\n".join(line for line in BRANCHED.splitlines() if not line.startswith("    "))
    assert outline(parse_thunks(text.replace("condition:\n", ""))) == [21, 22]
    head, _, rest = BRANCHED.partition("    004")
    without = head + rest[rest.index("  true_branch:") :]
    assert outline(parse_thunks(without)) == [(21, {"false_branch": [], "true_branch": [20]}), 22]


def test_the_stream_of_an_async_start_is_known() -> None:
    assert find(SCANNED, 11).stream == "computation_stream[1]"
    assert find(SCANNED, 14).stream == ""


def test_the_older_form_has_no_ids_and_may_leave_out_nested_thunks() -> None:
    old = parse_thunks(BEFORE_2025)
    assert [thunk.kind for thunk in old.walk()] == [
        "kCopy", "kKernel", "kWhile", "kKernel", "kCommandBuffer", "kCustomCall", "kKernel",
    ]  # fmt: skip
    assert not old.shows_nested
    assert parse_thunks(SCANNED).shows_nested


@pytest.mark.parametrize("line", ["HloModule jit_step", "001: Copy [source | sink]", "  other_label:", "kcopy"])
def test_a_line_of_another_form_is_an_error_with_its_number(line: str) -> None:
    with pytest.raises(ArtifactError, match="line 2 of the thunk sequence"):
        parse_thunks(f"001: kCopy [source | sink] kCopy\n{line}\n")


def test_an_empty_text_is_an_empty_sequence() -> None:
    assert parse_thunks("\n").thunks == ()


@pytest.mark.parametrize(
    ("flags", "order"),
    [
        ("", CommandOrder.SCHEDULE),
        ("--xla_gpu_command_buffer_scheduling_mode=LHS", CommandOrder.SCHEDULE),
        ("--xla_gpu_command_buffer_scheduling_mode=serialize", CommandOrder.SCHEDULE),
        ("xla_gpu_command_buffer_scheduling_mode: CONCURRENT\n", CommandOrder.DECLARED),
        ('[{"xla_gpu_command_buffer_scheduling_mode": "CONCURRENT_REGIONS"}]', CommandOrder.DECLARED),
        (
            '["--xla_gpu_command_buffer_scheduling_mode=LHS", {"xla_gpu_command_buffer_scheduling_mode": 1}]',
            CommandOrder.DECLARED,
        ),
        ("--xla_gpu_command_buffer_scheduling_mode=SOMETHING_NEW", CommandOrder.UNKNOWN),
        ("--xla_gpu_graph_enable_concurrent_region=true", CommandOrder.DECLARED),
        ("--xla_gpu_graph_enable_concurrent_region --xla_other=1", CommandOrder.DECLARED),
        ("xla_gpu_graph_enable_concurrent_region: false", CommandOrder.SCHEDULE),
        ('[{"xla_gpu_graph_enable_concurrent_region": false}]', CommandOrder.SCHEDULE),
    ],
)  # fmt: skip
def test_the_order_of_commands_follows_from_flags_in_any_form(flags: str, order: CommandOrder) -> None:
    assert parse_command_order(flags) is order


def test_an_empty_branch_shares_its_line_with_the_next_label() -> None:
    text = """\
010: kConditional  [prev=008 (1) | next=011 (1)]
  false_branch:
    No thunks.  true_branch:
    009: kCustomKernel [source | sink] loop_broadcast_fusion_1 grid: [2, 1, 1]
011: kCustomKernel [prev=010 (1) | sink        ] gemm_fusion_dot grid: [4, 1, 1]
"""
    conditional, after = parse_thunks(text).thunks
    branches = {label: [thunk.id for thunk in sequence.thunks] for label, sequence in conditional.nested}
    assert branches == {"false_branch": [], "true_branch": [9]}
    assert after.id == 11
