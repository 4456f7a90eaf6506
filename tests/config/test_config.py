"""The configuration file: its keys, and one line for each mistake."""

from pathlib import Path

import pytest

from ligerdiag.config import Config, load_config
from ligerdiag.errors import InputError

GOOD = """\
[tool.ligerdiag]
targets = ["a100", "mine.pbtxt", "a100"]
fail_on = "never"
strict = true

[[tool.ligerdiag.suppress]]
rule = "latent-order"
reason = \"\"\"
only
logged\"\"\"
case = "step[*]"
output = "logits"

[[tool.ligerdiag.suppress]]
rule = "LD012"
reason = "f32 on purpose"
kernel = "ce_*"
source = "models/*.py"

[tool.ligerdiag.effects.my_target]
writes = [0]
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "pyproject.toml"
    path.write_text(text)
    return path


def test_everything_is_read(tmp_path: Path) -> None:
    (tmp_path / "mine.pbtxt").touch()
    config = load_config(write(tmp_path, GOOD), tmp_path)
    assert (config.targets, config.fail_on, config.strict) == (("a100", str(tmp_path / "mine.pbtxt")), "never", True)
    first, second = config.suppress
    assert (first.rule, first.reason, first.case, first.output) == ("LD003", "only logged", "step[*]", "logits")
    assert (second.rule, second.kernel, second.source) == ("LD012", "ce_*", "models/*.py")
    assert (second.case, second.directory) == ("", str(tmp_path.resolve()))
    assert second.where == "pyproject.toml [[tool.ligerdiag.suppress]] number 2"
    assert [(one.name, one.writes) for one in config.effects] == [("my_target", frozenset({0}))]


def test_the_nearest_file_counts_even_without_settings(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    write(tmp_path, "[tool.ligerdiag]\nstrict = true\n")
    assert load_config(None, inner).strict is True
    write(tmp_path / "a", "[project]\nname = 'a'\n")
    assert load_config(None, inner) == Config()


def test_without_a_file_everything_has_its_default() -> None:
    assert load_config(None, Path("/")) == Config()


def test_a_named_file_counts_and_must_have_the_table(tmp_path: Path) -> None:
    write(tmp_path, "[tool.ligerdiag]\nstrict = true\n")
    other = tmp_path / "other.toml"
    other.write_text("[tool.ligerdiag]\nstrict = false\n")
    assert load_config(other, tmp_path).strict is False
    other.write_text("[tool.other]\n")
    with pytest.raises(InputError, match=r"`.*other\.toml` has no table \[tool\.ligerdiag\]"):
        load_config(other, tmp_path)
    with pytest.raises(InputError, match=r"cannot read `.*gone\.toml`: No such file"):
        load_config(tmp_path / "gone.toml", tmp_path)


ENTRY = "[[tool.ligerdiag.suppress]]\n"
WHOLE = ENTRY + 'rule = "LD003"\nreason = "r"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tool.ligerdiag\n", "is not TOML"),
        ("[tool]\nligerdiag = 3\n", "expected the table [tool.ligerdiag] but got 3 (type=int)"),
        ("[tool.ligerdiag]\nsupress = []\n", "in [tool.ligerdiag] but got `supress`, did you mean `suppress`"),
        (
            "[tool.ligerdiag]\ncolour = 1\n",
            "expected one of suppress, effects, targets, fail_on, strict, baseline, ",
        ),
        ("[tool.ligerdiag]\nstrict = 'yes'\n", "expected true or false for `strict` in [tool.ligerdiag] but got 'yes'"),
        ("[tool.ligerdiag]\nfail_on = 'fatal'\n", "expected one of error, warning, note, never for `fail_on`"),
        ("[tool.ligerdiag]\nfail_on = ''\n", "expected one of error, warning, note, never for `fail_on`"),
        ("[tool.ligerdiag]\nfail_on = [1]\n", "for `fail_on` in [tool.ligerdiag] but got [1] (type=list)"),
        ("[tool.ligerdiag]\ntargets = 'h100'\n", 'expected a list such as ["h100"] for `targets`'),
        ("[tool.ligerdiag]\ntargets = ['h100', 3]\n", 'expected a list such as ["h100"] for `targets`'),
        ("[tool.ligerdiag]\neffects = [1]\n", "expected a table for `effects` in [tool.ligerdiag] but got [1]"),
        ("[tool.ligerdiag.effects]\nx = { write = [0] }\n", "in [tool.ligerdiag.effects.x] but got `write`"),
        ("[tool.ligerdiag.suppress]\nrule = 'LD003'\n", "expected an array of tables [[tool.ligerdiag.suppress]]"),
        ("[tool.ligerdiag]\nsuppress = ['LD003']\n", "expected a table with `rule` and `reason` for"),
        (ENTRY + "rule = 'LD003'\n", "expected `reason` in [[tool.ligerdiag.suppress]] number 1"),
        (ENTRY + "reason = 'r'\n", "expected `rule` in [[tool.ligerdiag.suppress]] number 1"),
        (WHOLE + ENTRY + "rule = 'LD003'\nreason = '  '\n", "for `reason` in [[tool.ligerdiag.suppress]] number 2"),
        (ENTRY + "rule = 'LD999'\nreason = 'r'\n", "no rule `LD999`; known: LD001 stale-read"),
        (WHOLE + "kernel = 3\n", "for `kernel` in [[tool.ligerdiag.suppress]] number 1 but got 3 (type=int)"),
        (WHOLE + "kernels = 'a'\n", "number 1 but got `kernels`, did you mean `kernel`"),
    ],
)
def test_a_mistake_is_one_line_with_file_and_key(tmp_path: Path, text: str, words: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load_config(None, tmp_path)
    said = str(caught.value)
    assert words in said
    assert f"`{path}`" in said
    assert "\n" not in said
