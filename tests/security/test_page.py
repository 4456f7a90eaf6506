"""Every sentence of docs/security.md has a test, listed here; a new or changed sentence needs one."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNTESTED = ("Reporting a fault",)
"""Sections that do not describe ligerdiag's behaviour; nor does the text before the first section."""

FOREIGN = "tests/security/test_foreign_folder.py::"
SOURCES = "tests/security/test_sources.py::"
LANDLOCK = "tests/sandbox/test_landlock.py::"
CONFINEMENT = "tests/sandbox/test_confinement.py::"
COUNTING = "tests/sandbox/test_counting.py::"
PAIRS = "tests/analysis/pairs/"
TEXT = "tests/report/test_source_text.py::"

TESTS: Mapping[str, tuple[str, ...]] = {
    "A kernel that the program calls always": (
        PAIRS + "branch_that_may_be_taken.hlo",
        PAIRS + "branch_that_is_never_taken.hlo",
        PAIRS + "loop_that_never_runs.hlo",
    ),
    "A module from before the optimizations is not used": (
        "tests/dumps/test_same_program.py::test_a_module_of_another_program_is_not_used",
        "tests/dumps/test_same_program.py::test_a_module_of_the_same_program_is_used",
    ),
    "In a folder it opens only": (
        "tests/sweep/test_grid.py::test_an_entry_of_a_store_that_is_not_a_file_is_ignored_without_waiting",
    ),
    "That process counts the modules": (
        COUNTING + "test_the_parent_reads_no_text_to_count_its_modules",
        COUNTING + "test_links_to_the_same_file_count_once",
        COUNTING + "test_all_texts_together_have_one_limit",
    ),
    "Where it offers seccomp": (
        CONFINEMENT + "test_the_attack_is_denied",
        CONFINEMENT + "test_confinement_allows_everything_that_reading_needs",
    ),
    "It has no capabilities": (CONFINEMENT + "test_the_attack_is_denied",),
    "No name makes a link": ("tests/report/test_sarif.py::test_no_name_makes_a_link_in_any_text",),
    "Ctrl-C ends a command": (
        "tests/cli/test_interrupted_imports.py::test_an_interrupted_import_ends_the_command",
        "tests/cli/test_interrupted_imports.py::test_ctrl_c_during_imports_ends_each_command",
    ),
    "If a store holds anything but a whole result": (
        "tests/sweep/test_grid.py::test_another_task_s_result_under_the_key_is_not_used",
        "tests/sweep/test_grid.py::test_a_store_returns_only_complete_results_under_their_own_keys",
        "tests/sweep/test_case_pages.py::test_a_page_is_made_only_from_a_complete_report",
    ),
    "A case file that you give to": ("tests/security/test_trust.py::test_a_case_file_is_run_as_the_user",),
    "Its imports are looked for in": (
        "tests/security/test_trust.py::test_a_case_imports_from_its_project_pythonpath_and_installed_packages",
    ),
    "The configuration is yours": (
        "tests/config/test_foreign_config.py::test_a_file_elsewhere_counts",
        "tests/config/test_foreign_config.py::test_ignoring_a_file_is_noted_unless_the_user_names_it",
    ),
    "Comments that allow a finding": (
        "tests/suppressions/test_suppressions.py::test_a_comment_counts_only_in_the_user_s_own_file",
    ),
    "Dumps, HLO text, artifacts": (
        FOREIGN + "test_reading_a_dump_imports_nothing_from_it",
        SOURCES + "test_a_dump_does_not_excuse_itself",
    ),
    "`inspect`, `report` and `diff A B` run": (
        FOREIGN + "test_reading_a_dump_imports_nothing_from_it",
        "tests/security/test_trust.py::test_reading_needs_no_pickle",
    ),
    "No command imports a file because": (
        FOREIGN + "test_reading_a_dump_imports_nothing_from_it",
        FOREIGN + "test_hlo_text_is_parsed_without_the_folder",
        FOREIGN + "test_a_case_from_elsewhere_imports_nothing_from_the_current_folder",
    ),
    "Every process that we start gets": (
        "tests/compile/test_worker_environment.py::test_a_worker_starts_with_installed_packages_only",
        "tests/security/test_trust.py::test_a_worker_runs_in_its_own_folder",
    ),
    "`python -m ligerdiag.cli` puts": (
        FOREIGN + "test_python_m_imports_from_the_current_folder",
        FOREIGN + "test_reading_a_dump_imports_nothing_from_it",
    ),
    "A report quotes source lines": (SOURCES + "test_inspect_quotes_nothing_unless_a_root_is_given",),
    "Without it `check` quotes": (
        SOURCES + "test_check_quotes_the_project_of_its_case_wherever_it_runs",
        SOURCES + "test_inspect_quotes_nothing_unless_a_root_is_given",
        TEXT + "test_the_usual_root_is_the_repository_or_else_the_folder",
    ),
    "Links are resolved first": (
        TEXT + "test_a_link_out_of_the_root_is_not_followed",
        TEXT + "test_only_regular_files_of_a_bounded_size_are_opened",
    ),
    "A suggested change of your call": (TEXT + "test_the_patch_of_a_call_quotes_no_other_file",),
    "A comment in a file that came": (SOURCES + "test_a_dump_does_not_excuse_itself",),
    "Beside a single file that you inspect": (SOURCES + "test_the_user_s_own_comments_and_configuration_count",),
    "Time, memory, bytes read": (
        "tests/sandbox/test_bounds.py::test_a_hostile_input_costs_bounded_work",
        "tests/dumps/test_find.py::test_a_directory_is_searched_within_limits",
    ),
    "A file that is not regular": ("tests/sandbox/test_untrusted_files.py::test_only_regular_files_are_opened",),
    "`inspect` reads in a process": (
        "tests/sandbox/test_inspector.py::test_a_process_that_dies_costs_one_module",
        "tests/sandbox/test_inspector.py::test_the_process_gives_up_every_right_that_the_kernel_lets_it",
    ),
    "Where the kernel offers Landlock": (
        LANDLOCK + "test_no_file_outside_the_folder_is_changed",
        LANDLOCK + "test_no_process_outside_gets_its_signals",
        "tests/sandbox/test_inspector.py::test_a_hijacked_process_changes_none_of_our_files",
    ),
    "A kernel that lacks one of these": (
        CONFINEMENT + "test_a_protection_that_the_kernel_lacks_is_reported",
        CONFINEMENT + "test_a_verbose_run_lists_the_active_protections",
        "tests/security/test_trust.py::test_the_effects_of_a_stranger_s_kernel_are_not_kept",
    ),
    "Its results about a stranger's": (
        "tests/security/test_trust.py::test_the_effects_of_a_stranger_s_kernel_are_not_kept",
        "tests/security/test_trust.py::test_known_effects_of_a_kernel_are_read_but_not_written",
    ),
    "It can still read your files": (LANDLOCK + "test_writing_its_own_folder_reading_and_chmod_still_work",),
    "A name in a report holds": (
        "tests/report/test_printable.py::test_control_characters_are_removed_and_text_is_kept",
        "tests/cli/test_command_line.py::test_an_error_cannot_colour_the_terminal",
    ),
    "No line of the terminal format": (
        "tests/report/test_printable.py::test_no_line_is_a_command_of_a_workflow",
        "tests/report/test_terminal_text.py::test_no_name_starts_a_line_that_a_workflow_takes_for_a_command",
    ),
    "HTML pages are self-contained": (
        "tests/report/html/test_case_page.py::test_no_page_names_an_address_other_than_those_of_rules",
        "tests/report/html/test_case_page.py::test_names_that_are_markup_are_text",
    ),
    "Processes that we start end with us": (
        "tests/effects/test_ended_parent.py::test_no_process_is_left",
        "tests/replay/test_replay_service.py::test_a_worker_and_its_child_processes_end_with_their_parent",
        "tests/sandbox/test_inspector.py::test_a_process_that_still_imports_ends_with_a_parent_that_is_killed",
    ),
    "Temporary folders are readable": (
        "tests/compile/test_scratch_folders.py::test_folders_of_a_killed_process_are_removed_and_folders_in_use_are_not",
        "tests/compile/test_scratch_folders.py::test_other_users_may_not_enter_a_scratch_folder",
    ),
    "In modules that came from elsewhere": (
        "tests/analysis/test_tag_trust.py::test_a_tag_of_an_operation_with_fewer_inputs_is_refuted",
        "tests/analysis/test_tag_trust.py::test_the_tags_of_a_program_must_ascend",
    ),
    "An output is unknown if": ("tests/security/test_names.py::test_no_lost_or_exchanged_name_makes_a_verdict_better",),
    "How a loop counts": ("tests/analysis/test_iteration_slices.py::test_the_loop_config_in_a_file_is_not_trusted",),
    "An output that depends": (PAIRS + "value_without_a_tag.hlo",),
    "A buffer assignment counts": (
        "tests/hlo/test_buffer_check.py::test_an_assignment_that_xla_wrote_is_trusted",
        "tests/hlo/test_buffer_check.py::test_a_changed_assignment_is_not_trusted",
    ),
    "Tags of ours are used": ("tests/hlo/test_untrusted_modules.py::test_tags_are_complete_or_not_used",),
    "An alias between": (
        "tests/hlo/test_untrusted_modules.py::test_an_impossible_alias_is_invalid",
        "tests/hlo/test_untrusted_modules.py::test_a_possible_alias_is_used",
    ),
    "What XLA itself would": ("tests/hlo/test_untrusted_modules.py::test_an_opcode_that_xla_does_not_have_is_refused",),
    "Cases of one file may see": (
        "tests/compile/test_contamination.py::test_no_file_changes_the_compiled_program_of_another_s_case",
    ),
    "The key of a cache entry contains": (
        "tests/compile/test_contamination.py::test_a_flag_set_by_a_file_is_part_of_the_key_and_the_record",
    ),
    "Every entry of the cache says": (
        "tests/compile/test_cache_trust.py::test_an_artifact_in_the_folder_of_another_is_a_miss",
        "tests/compile/test_cache_trust.py::test_an_answer_to_another_question_is_a_miss",
        "tests/compile/test_cache_trust.py::test_the_effects_of_another_call_are_a_miss",
    ),
    "A cache that others can write": (
        "tests/compile/test_cache_trust.py::test_a_cache_that_others_can_write_is_refused",
        "tests/compile/test_cache_trust.py::test_a_cache_of_another_user_is_refused",
    ),
    "A replay has limits of its own there": (
        "tests/sandbox/test_inspector.py::test_a_process_that_dies_in_a_replay_costs_only_the_numbers",
        "tests/dumps/test_replay.py::test_memory_that_no_estimate_covers_is_bounded",
        "tests/dumps/test_replay.py::test_an_endless_loop_costs_only_the_numbers",
        "tests/inspection/test_dump_replay.py::test_a_kernel_that_no_worker_could_read_is_not_covered",
    ),
    "StableHLO is the exception": ("tests/dumps/test_stablehlo.py::test_a_hidden_write_is_found_in_each_form",),
    "MLIR's parser and XLA run in a compile worker": (
        "tests/dumps/test_stablehlo.py::test_a_file_that_is_too_large_is_not_read",
        "tests/dumps/test_stablehlo.py::test_a_module_that_cannot_be_compiled_is_one_error",
    ),
    "A crash ends that worker alone": (
        "tests/dumps/test_stablehlo.py::test_a_broken_file_leaves_the_others_and_a_dump_judged",
    ),
    "The file is run on no device": (
        "tests/dumps/test_stablehlo.py::test_an_unknown_target_leaves_the_outputs_unknown",
    ),
    "Give `inspect` StableHLO of strangers": ("tests/dumps/test_stablehlo.py::test_truncated_bytecode_is_one_error",),
    "If a rule, a module or a case file": (
        "tests/api/test_rule_failures.py::test_a_failing_rule_is_unknown_and_the_others_still_count",
        "tests/api/test_rule_failures.py::test_any_other_failure_loses_only_its_module",
        "tests/api/test_broken_files.py::test_each_broken_file_and_the_good_one_have_a_report",
    ),
}
"""The beginning of a sentence to its tests, or to files of pairs that tests/analysis/test_pairs.py judges."""


def list_sentences() -> list[str]:
    sections = re.split(r"^## (.+)\n", (ROOT / "docs" / "security.md").read_text(), flags=re.MULTILINE)[1:]
    texts = [text for title, text in zip(sections[::2], sections[1::2], strict=True) if title not in UNTESTED]
    found = [re.split(r"(?<=\.) (?=[A-Z`])", " ".join(part.split())) for text in texts for part in text.split("\n\n")]
    return [sentence for sentences in found for sentence in sentences if sentence]


@pytest.mark.parametrize("sentence", list_sentences())
def test_a_sentence_has_a_test(sentence: str) -> None:
    assert sum(sentence.startswith(start) for start in TESTS) == 1


@pytest.mark.parametrize("start", list(TESTS))
def test_no_test_belongs_to_a_removed_sentence(start: str) -> None:
    assert sum(sentence.startswith(start) for sentence in list_sentences()) == 1


@pytest.mark.parametrize("name", sorted({name for names in TESTS.values() for name in names}))
def test_the_listed_test_exists(name: str) -> None:
    file, _, function = name.partition("::")
    text = (ROOT / file).read_text()
    assert f"\ndef {function}(" in text if function else "// expect: " in text
