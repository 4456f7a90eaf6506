"""Takes the pictures of docs/html-report.md: `python -m tools.screenshots [DIR]`, from real cases in headless Chromium.

`ligerdiag check --html` writes the pages, and Chromium shows their first screen, wide and narrow, light and dark. Look
at every picture before you commit it.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from tools.documents import ROOT, parse_blocks

CASES = {
    "seed-bias": "seed_flce[False-float32-True-1-4-32-16]",
    "folded-convert": "bf16_flce[False-True-1-4-32-16]",
    "sharded-trivial": "sharded_flce[vocabulary-trivial]",
    "llama-trivial": "llama_step[fsdp-trivial]",
}
EXAMPLE = "hidden"
"""Case of docs/first-steps.md, which calls its kernel directly, so that its page shows the call before and after."""
PLACES = {"folded-convert": "#band", "sharded-trivial": "#band"}
"""Pages of which a picture shows another place than the first screen."""
OTHERS = ("saved_residual*", "in_flight*", "flce_modes[aliased-float32-True-1-4-32-16]", "loop_carry*")
"""Further cases in the index."""
SIZES = {1280: 800, 390: 844}
"""Width to height of the first screen."""
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
BROWSER = "/usr/bin/chromium"
COLOURS = 256
"""A palette makes a picture three times smaller, and its text stays sharp."""


def write_pages(directory: Path) -> None:
    """Writes the pages of all of `CASES` and `OTHERS`, with numbers, and that of `EXAMPLE` into a folder beside them."""
    command = [sys.executable, "-m", "ligerdiag", "check"]
    words = [*CASES.values(), *OTHERS, "--html", str(directory)]
    subprocess.run([*command, *words], check=False, stdout=subprocess.DEVNULL)
    blocks = parse_blocks(ROOT / "docs" / "first-steps.md")
    folder = directory.parent / EXAMPLE
    folder.mkdir()
    file = folder / f"{EXAMPLE}.py"
    file.write_text(next(one.text for one in blocks if one.text.startswith(f"# {file.name}\n")), encoding="utf-8")
    subprocess.run([*command, file.name, "--html", "pages"], cwd=folder, check=False, stdout=subprocess.DEVNULL)


def find_page(directory: Path, case_id: str) -> Path:
    """Returns the page of the case."""
    found = [path for path in sorted(directory.glob("*.html")) if f"<h1>{case_id}</h1>" in path.read_text("utf-8")]
    if len(found) != 1:
        raise SystemExit(f"expected one page of `{case_id}` in `{directory}` but got {len(found)}")
    return found[0]


def write_screenshots(pages: Path, directory: Path) -> None:
    """Writes `<name>-<light|dark>-<width>.png` of each page."""
    shown = {name: find_page(pages, case_id) for name, case_id in CASES.items()} | {"index": pages / "index.html"}
    shown["remedy"] = find_page(pages.parent / EXAMPLE / "pages", EXAMPLE)
    directory.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or BROWSER
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        for scheme in ("light", "dark"):
            for width, height in SIZES.items():
                page = browser.new_page(
                    viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
                )
                for name, file in shown.items():
                    write_screenshot(
                        page, file.as_uri() + PLACES.get(name, ""), directory / f"{name}-{scheme}-{width}.png"
                    )
                page.close()
        browser.close()


def write_screenshot(page: Page, address: str, target: Path) -> None:
    """Writes a picture of the screen at the address, without a cursor or a scroll bar."""
    page.goto(address)
    with Image.open(BytesIO(page.screenshot(animations="disabled", caret="hide"))) as picture:
        picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(target, optimize=True)
    sys.stdout.write(f"{target}: {target.stat().st_size} bytes\n")


def main(arguments: Sequence[str]) -> int:
    """Returns 0."""
    directory = Path(arguments[0]) if arguments else Path("docs/screenshots")
    with tempfile.TemporaryDirectory(prefix="ligerdiag-pages-") as pages:
        write_pages(Path(pages) / "report")
        write_screenshots(Path(pages) / "report", directory)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
