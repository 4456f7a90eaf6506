"""Short texts for many names of outputs."""

from ligerdiag.text import describe_names, find_layers, fold_names, render_patterns

LEAVES = ("norm", "qkv", "out")
EVERY = (
    "params.embed",
    *(f"params.layers.{layer}.{leaf}" for layer in range(12) for leaf in LEAVES),
    *(f"opt_state.0.mu.{leaf}" for leaf in LEAVES),
    "opt_state.0.count",
    "loss",
)


def test_a_tree_that_is_selected_as_a_whole_is_one_pattern() -> None:
    names = [name for name in EVERY if name.startswith("params") or ".mu." in name]
    assert fold_names(names, EVERY) == ("`params.*`", "`opt_state.0.mu.*`")


def test_layers_with_the_same_part_are_folded_with_their_numbers() -> None:
    assert fold_names([f"params.layers.{n}.norm" for n in range(12)], EVERY) == ("`params.layers.*.norm`",)
    some = [f"params.layers.{n}.{leaf}" for n in (0, 1, 2, 10) for leaf in LEAVES]
    assert fold_names(some, EVERY) == ("`params.layers.{0-2,10}.*`",)


def test_a_pattern_with_a_name_that_is_not_selected_has_a_count() -> None:
    names = [name for name in EVERY if name not in ("params.layers.3.qkv", "loss")]
    assert fold_names(names, EVERY, coarse=True) == ("`params.*` (36 of 37)", "`opt_state.*`")
    assert "`params.layers.*`" not in fold_names(names, EVERY)


def test_a_single_leaf_has_no_star_and_a_strange_name_stays() -> None:
    assert fold_names(["loss", "elsewhere"], EVERY) == ("`loss`", "`elsewhere`")


def test_names_that_cannot_be_folded_are_counted() -> None:
    every = [f"output {number}" for number in range(40)]
    assert render_patterns(every[:20], every).endswith("`output 6` and 13 more")


def test_few_names_are_listed_and_many_are_counted() -> None:
    assert describe_names(["loss", "params.embed"], EVERY) == "`loss` and `params.embed`"
    assert describe_names(EVERY[:7], EVERY) == "7 of 42 outputs"


def test_layers_have_the_name_of_the_list_with_as_many_entries() -> None:
    assert find_layers(12, EVERY) == "layers"
    assert find_layers(11, EVERY) == ""
