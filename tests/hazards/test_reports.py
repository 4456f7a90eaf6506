"""Behind each rule stand real reports: each is named on the rule's page, with the case that was rebuilt from it."""

import importlib
import pkgutil

import pytest

import cases
from ligerdiag.rules.registry import RULES, get_rule
from ligerdiag.rules.rule import Reproduction

REPORTS = {
    "LD001": ("phlippe/liger_kernels", "NVIDIA/warp#745", "flatironinstitute/jaxmg#12", "linkedin/Liger-Kernel#272"),
    "LD002": ("phlippe/liger_kernels", "openxla/xla#20440", "jax-ml/jax#25399"),
    "LD003": ("phlippe/liger_kernels",),
    "LD004": ("linkedin/Liger-Kernel#272", "linkedin/Liger-Kernel#1251"),
    "LD005": ("openxla/xla#27412", "ROCm/xla#839", "openxla/xla#48900"),
    "LD006": ("NVIDIA/warp#745", "SpeedyWeather/SpeedyWeather.jl#985"),
    "LD007": (
        "jax-ml/jax#3829",
        "jax-ml/jax#11620",
        "NVIDIA/warp#1240",
        "pytorch/pytorch#170808",
        "ROCm/pytorch#3398",
        "phlippe/liger_kernels",
    ),
    "LD008": ("pytorch/pytorch#196657", "EnzymeAD/Enzyme-JAX#2968"),
    "LD009": ("pytorch/xla#8422",),
    "LD010": (
        "triton-lang/triton#54",
        "triton-lang/triton#6547",
        "NVIDIA/TransformerEngine#2814",
        "jax-ml/jax#35218",
    ),
    "LD011": ("NVIDIA/TransformerEngine#2730", "NVIDIA/TransformerEngine#2975"),
    "LD012": ("phlippe/liger_kernels",),
    "LD013": ("jax-ml/jax#20227", "jax-ml/jax#24023"),
    "LD014": ("pytorch/pytorch#129372",),
    "LD021": ("jax-ml/jax#39625",),
    "LD022": ("docs/reports/dynamic-slice-fusion.md",),
    "LD023": ("rwth-i6/returnn",),
    "LD024": ("jax-ml/jax#39100", "csarofeen/pytorch#1984"),
    "LD025": ("jax-ml/jax#24117", "triton-lang/triton#3755"),
    "LD016": ("linkedin/Liger-Kernel#272", "phlippe/liger_kernels"),
}
"""The reports that each rule was made for. Lines are only added."""
CASE_IDS = frozenset(
    case.id
    for module in pkgutil.iter_modules(cases.__path__, "cases.")
    for case in importlib.import_module(module.name).CASES
)
ENTRIES = tuple((rule.id, entry) for rule in RULES for entry in rule.reproduced)


@pytest.mark.parametrize(("rule", "report"), [(rule, report) for rule, all in REPORTS.items() for report in all])
def test_a_report_behind_a_rule_is_on_its_page(rule: str, report: str) -> None:
    assert [entry for entry in get_rule(rule).reproduced if entry.report.startswith(report)]


@pytest.mark.parametrize(("rule", "entry"), ENTRIES, ids=[f"{rule}-{entry.report}" for rule, entry in ENTRIES])
def test_an_entry_names_a_case_that_exists_or_says_that_nothing_was_reproduced(rule: str, entry: Reproduction) -> None:
    assert entry.case in CASE_IDS if entry.case else entry.reproduced.startswith("nothing")


@pytest.mark.parametrize(("rule", "entry"), ENTRIES, ids=[f"{rule}-{entry.report}" for rule, entry in ENTRIES])
def test_an_entry_says_both_what_was_reproduced_and_what_was_not(rule: str, entry: Reproduction) -> None:
    for text in (entry.report, entry.reproduced, entry.missing):
        assert text.strip()
        assert not text.endswith(".")
