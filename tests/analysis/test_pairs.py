"""Each schedule of `pairs/` has the verdicts that its file expects."""

import pytest

from tests.analysis.pair_files import FOLDER, judge_pair, load_pairs

PAIRS = [
    pytest.param(file.stem, label, id=f"{file.stem}: {label}".removesuffix(": "))
    for file in sorted(FOLDER.glob("*.hlo"))
    for label in load_pairs(file.stem)
]


@pytest.mark.parametrize(("name", "label"), PAIRS)
def test_a_schedule_has_the_verdicts_that_its_file_expects(name: str, label: str) -> None:
    pair = load_pairs(name)[label]
    outputs = judge_pair(name, label).verdicts.outputs
    found = {output: judged.verdict.value for output, judged in outputs.items()}
    assert found == pair.expected, pair.sentence
