"""The tests that run only in the nightly run because they cost more than they find, besides those that have the
`nightly` marker.

CI has two cores and ten minutes. For each entry a test nearby runs every day and checks the same on a smaller program,
for another type, or one layer below. docs/measurements/2026-11-24-tests.md lists the mutations that the daily tests
notice.
"""

import re
from fnmatch import translate

PATTERNS = (
    # pages whose commands also occur on other pages
    "tests/docs/test_commands.py::*[[]tutorial.md]",
    "tests/docs/test_commands.py::*[[]pytest-plugin.md]",
    "tests/docs/test_commands.py::*[[]formats.md]",
    "tests/docs/test_commands.py::*[[]suppressions.md]",
    "tests/docs/test_commands.py::*[[]html-report.md]",
    "tests/docs/test_commands.py::*[[]how-to-inspect-a-dump.md]",
    "tests/docs/test_commands.py::*[[]agents.md]",
    "tests/docs/test_commands.py::*[[]how-to-opcheck.md]",
    "tests/docs/test_commands.py::*[[]how-to-optimizer.md]",
    "tests/docs/test_commands.py::*[[]how-to-kv-cache.md]",
    "tests/docs/test_commands.py::*[[]sweep.md]",
    # one remedy of a train step runs daily
    "tests/memory/test_steps.py::test_the_remedies_*[[]rolled_not_donated]",
    "tests/memory/test_steps.py::test_the_remedies_*[[]in_order]",
    "tests/memory/test_steps.py::test_the_remedies_*[[]whole_parameters]",
    "tests/memory/test_steps.py::test_the_remedies_*[[]gradients_first]",
    # the types of random keys: one runs daily
    "tests/api/test_callables.py::test_a_typed_random_key_is_an_argument[[]rbg]",
    "tests/api/test_callables.py::test_a_typed_random_key_is_an_argument[[]unsafe_rbg]",
    "tests/docs/test_workflow.py::test_the_check_of_the_workflow_*",
    "tests/docs/test_plain_install.py::test_following_the_page_alone_*",
    "tests/docs/test_plain_install.py::test_on_the_plugin_s_page_*",
    "tests/docs/test_plain_install.py::*tutorial.md*",
    "tests/docs/test_plain_install.py::test_the_files_of_init_*",
    # each way to dump, and each way to end, runs daily in one of several programs
    "tests/dumps/test_replay.py::test_an_endless_loop_costs_only_the_numbers",
    "tests/dumps/test_replay.py::test_a_payload_that_unpacks_without_end_is_not_replayed",
    "tests/dumps/test_replay.py::test_bounds_and_seed_are_respected",
    "tests/dumps/test_replay.py::test_an_artifact_of_several_devices_is_replayed_too",
    "tests/dumps/test_replay.py::*[[]--xla_dump_hlo_snapshots*",
    "tests/dumps/test_replay.py::*[[]--xla_dump_hlo_unoptimized_snapshots --xla*",
    "tests/dumps/test_replay.py::test_modules_of_two_programs_disagree",
    "tests/dumps/test_replay.py::test_a_report_shows_the_numbers_like_check",
    "tests/dumps/test_inspect.py::test_every_way_of_dumping_gives_the_same_verdicts",
    "tests/dumps/test_inspect.py::test_ordinary_programs_have_nothing_to_check",
    "tests/dumps/test_inspect.py::test_a_module_is_chosen_by_its_name",
    "tests/dumps/test_inspect.py::test_a_report_goes_to_a_file_and_the_table_is_still_shown",
    "tests/dumps/test_text.py::*[[]flce]",
    "tests/dumps/test_text.py::*[[]losses]",
    "tests/dumps/test_budget.py::test_messages_that_take_forty_times_their_bytes_*",
    "tests/tools/test_claims.py::*[[]text]",
    "tests/tools/test_claims.py::*[[]caches]",
    "tests/tools/test_claims.py::*[[]artifacts]",
    # pages in a browser: one width and one colour scheme run daily
    "tests/report/html/test_in_chromium.py::*[[]dark-390]",
    "tests/report/html/test_in_chromium.py::*[[]390*",
    "tests/report/html/test_in_chromium.py::test_text_has_the_contrast_*",
    "tests/report/html/test_in_chromium.py::test_the_focus_is_visible*",
    "tests/report/html/test_in_chromium.py::test_the_schemes_differ_*",
    "tests/report/html/test_in_chromium.py::test_a_link_into_a_folded_loop_*",
    "tests/report/html/test_in_chromium.py::test_a_band_with_many_wrong_reads_*",
    "tests/report/html/test_in_chromium.py::test_the_keys_j_and_k_*",
    "tests/report/html/test_in_chromium.py::test_pictures_controls_*",
    "tests/report/html/test_axe.py::test_axe_finds_nothing[[]dark-390]",
    "tests/docs/test_site_in_chromium.py::test_typical_pages_*[[]dark]",
    # one generation of jax-triton runs daily
    "tests/newcomer/test_newcomer.py::test_a_program_gets_the_answer_*[[]pinned-*",
    "tests/newcomer/test_newcomer.py::test_the_fixed_step_*[[]pinned]",
    "tests/newcomer/test_newcomer.py::test_an_invalid_file_*",
    "tests/newcomer/test_newcomer.py::test_a_kernel_without_a_batching_rule_*[[]plain]",
    # newest packages: a newcomer's programs, newer calls, rule examples and random programs with Refs run daily
    "tests/kernels/test_nestings.py::*_newest_*",
    "tests/hazards/test_unchecked_reads.py::test_the_newest_generation_*",
    # functions and lowered programs: of two that differ in a number or a type, one runs daily
    "tests/api/test_callables.py::test_a_typed_random_key_is_*[[]rbg]",
    "tests/api/test_callables.py::test_a_local_function_of_jit_with_shardings_*[[]4]",
    "tests/api/test_stages.py::test_a_derivative_that_may_*[[]_loss_of_square-*",
    "tests/api/test_function.py::test_several_targets_*[[]target1]",
    "tests/memory/test_steps.py::test_the_remedies_*[[]rolled_not_donated]",
    "tests/memory/test_steps.py::test_the_remedies_*[[]whole_parameters]",
    "tests/memory/test_steps.py::test_the_remedies_*[[]ring_in_pairs]",
    "tests/tools/test_deploy_site.py::test_versions_lie_beside_*",
    # kernels: one type and one size run daily
    "tests/kernels/*[[]*bfloat16*",
    "tests/kernels/*[[]*float16*",
    "tests/kernels/*[[]bf16*",
    "tests/kernels/*[[]f16*",
    "tests/kernels/test_gradients.py::test_chunks_of_two_tokens_*",
    "tests/kernels/test_gradients.py::test_a_row_in_two_blocks_*",
    "tests/kernels/test_gradients.py::test_a_layer_norm_of_a_row_in_two_blocks_agrees*",
    "tests/kernels/test_gradients.py::test_the_weight_s_gradient_*",
    "tests/kernels/test_cross_entropy.py::test_honours_*[[]smoothing-*",
    "tests/kernels/test_cross_entropy.py::test_honours_*[[]cap-*",
    "tests/kernels/test_cross_entropy.py::test_honours_*[[]z-*",
    "tests/kernels/test_cross_entropy.py::test_small_gradients_in_f16_*",
    "tests/kernels/test_cross_entropy.py::test_any_index_can_be_ignored_*",
    "tests/kernels/test_cross_entropy.py::test_agrees_for_a_vocabulary_*[[]33]",
    "tests/kernels/test_cross_entropy.py::test_agrees_for_a_vocabulary_*[[]16]",
    "tests/kernels/test_fused_linear_cross_entropy.py::test_an_odd_shape_agrees",
    "tests/kernels/test_fused_linear_cross_entropy.py::test_a_batch_of_ignored_targets_*",
    "tests/kernels/test_seed_flce.py::test_a_last_chunk_of_any_size_*",
    "tests/kernels/test_small_kernels.py::test_the_pallas_twin_*",
    "tests/kernels/test_llama.py::*",
    "tests/kernels/test_llama_grid.py::test_gradients_are_fresh_if_*dp-100M-1-hidden*",
    # opcodes for some of the numeric types
    *(
        f"tests/replay/opcodes/*[[]*{name}*"
        for name in ("int16", "int64", "uint32", "int8", "float64", "float16", "float8", "u8", "f64")
    ),
    "tests/replay/opcodes/test_random.py::test_bits_*[[]*-u16-*",
    "tests/replay/opcodes/test_scatter.py::test_any_dimension_numbers_*",
    "tests/replay/opcodes/test_movement.py::test_any_*",
    "tests/replay/opcodes/test_dot.py::test_any_*",
    "tests/replay/opcodes/test_windows.py::test_any_*",
    *(
        f"tests/replay/triton_ir/{file}.py::*[[]*{name}*"
        for file in ("test_against_interpreter", "test_two_evaluators")
        for name in ("int16", "int64", "uint8", "uint32", "float16", "float64")
    ),
    "tests/replay/triton_ir/test_two_evaluators.py::*[[]*-int8]",
    "tests/replay/triton_ir/test_programs.py::test_a_program_that_waits_forever_*",
    "tests/replay/triton_ir/test_project_kernels.py::*[[]seed_flce]",
    # processes that die: a test of the lower layer has each alone
    "tests/sandbox/test_bounds.py::test_a_good_module_beside_hostile_ones_is_judged",
    "tests/sandbox/test_bounds.py::test_memory_of_the_test_process_*",
    "tests/sandbox/test_bounds.py::*[[]members]",
    "tests/sandbox/test_bounds.py::*[[]zeros]",
    "tests/sandbox/test_bounds.py::*[[]hole in*",
    "tests/sandbox/test_inspector.py::*_costs_one_module[[]kill*",
    "tests/sandbox/test_inspector.py::*_costs_one_module[[]raise*",
    "tests/sandbox/test_inspector.py::*_costs_one_module[[]leave*",
    "tests/sandbox/test_inspector.py::*_costs_one_module[[]pickle*",
    "tests/sandbox/test_inspector.py::test_child_processes_have_*",
    "tests/sandbox/test_landlock.py::*[[]m*",
    "tests/tools/test_kill_runs.py::test_a_real_full_disk_does_no_harm",
    "tests/tools/test_kill_runs.py::*[[]parent*",
    "tests/tools/test_shuffle_orders.py::test_any_order_gives_the_same_bytes",
    "tests/compile/test_other_toolchain_forks.py::test_forked_workers_*[[]0.9]",
    "tests/compile/test_other_toolchain_forks.py::test_forked_workers_*[[]0.12]",
    "tests/compile/test_cache.py::test_ctrl_c_*",
    "tests/compile/test_cache.py::test_a_worker_ends_with_its_parent",
    "tests/replay/test_replay_service.py::test_a_worker_and_its_child_processes_*",
    "tests/effects/test_isolated.py::test_a_kernel_that_crashes_its_reader_*",
    "tests/cli/test_streams.py::*[[]2>*",
    "tests/cli/test_streams.py::*[[]>&- 2>&-]",
    "tests/cli/test_terminal.py::*[[]True-40]",
    "tests/cli/test_terminal.py::*[[]False-200]",
    "tests/cli/test_terminal.py::*[[]True-200]",
    "tests/cli/test_terminal.py::*[[]False-80]",
    "tests/cli/test_streams.py::*[[]toolchains]",
    "tests/cli/test_streams.py::*[[]targets]",
    "tests/sweep/test_sweep.py::*",
    "tests/sweep/test_bucket.py::test_a_bucket_gives_the_same_table_*",
    "tests/sweep/test_case_pages.py::test_each_cell_*",
    "tests/sweep/test_case_pages.py::test_a_click_*",
    "tests/sweep/test_case_pages.py::test_a_grid_without_pages_*",
    "tests/sweep/test_sizes.py::test_each_size_is_compiled_*",
    "tests/examples/test_model_examples.py::*",
    # the plugin, suppressions, bisection: the smaller program of each runs daily
    "tests/pytest_plugin/test_installed.py::test_two_processes_*",
    "tests/pytest_plugin/test_fixture.py::test_a_marker_makes_one_test_*",
    "tests/api/test_function.py::test_functions_of_a_script_*",
    "tests/fuzz/test_campaign.py::test_a_campaign_judges_each_program_once",
    "tests/api/test_suppressions.py::test_inspect_honours_suppressions_like_check",
    "tests/bisect/test_passes.py::*",
    "tests/bisect/test_flags.py::test_each_value_has_a_row_*",
    "tests/bisect/test_targets.py::test_each_gpu_has_a_row_*",
    "tests/bisect/test_toolchains.py::test_the_step_at_which_*",
    "tests/compile/test_ties.py::test_the_toolchain_of_2024_*",
    "tests/compile/test_ties.py::test_tying_all_readers_*[[]float32-False-*",
    "tests/compile/test_ties.py::test_a_tie_has_the_line_*",
    "tests/security/test_foreign_folder.py::*[[]report]",
    "tests/security/test_foreign_folder.py::*[[]diff]",
    "tests/security/test_foreign_folder.py::*[[]inspect --html]",
    "tests/security/test_foreign_folder.py::*[[]bisect]",
)
"""fnmatch patterns of node ids."""


_ANY = re.compile("|".join(map(translate, PATTERNS)))


def is_nightly(nodeid: str) -> bool:
    """Returns whether a pattern matches the test."""
    return _ANY.match(nodeid) is not None
