"""The documentation builds as a site without a warning: every link and every anchor leads somewhere."""

import re
from pathlib import Path, PurePosixPath

import pytest

from ligerdiag.rules.registry import RULES
from tools.site import prepare, read_address


def test_each_rule_has_an_address_that_stays(site: Path) -> None:
    for rule in RULES:
        assert (site / "rules" / f"{rule.id.lower()}-{rule.name}" / "index.html").is_file()


def test_a_page_shows_no_words_for_the_tests(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not re.search(r"```|not-run=", page.read_text(encoding="utf-8")), page


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    start = (site / "index.html").read_text(encoding="utf-8")
    loaded = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?://[^"]+)"', start)
    assert [address for address in loaded if "canonical" not in address] == []


@pytest.mark.parametrize(
    ("page", "text", "expected"),
    [
        ("ci.md", "[a](../.ci/run)", "[a]({}/blob/main/.ci/run)"),
        ("rules/ld001.md", "[a](../../LICENSE#top)", "[a]({}/blob/main/LICENSE#top)"),
        ("rules/ld001.md", "[a](../memory.md)", "[a](../memory.md)"),
        ("ci.md", "```sh not-run=form\nrun\n```", "```sh\nrun\n```"),
    ],
)
def test_links_out_of_the_docs_lead_to_the_repository(page: str, text: str, expected: str) -> None:
    assert prepare(text, PurePosixPath(page)) == expected.format(read_address("Source"))
