"""The pictures of docs/html-report.md: `python -m tools.screenshots [DIR]`, from real cases in headless Chromium.

`ligerdiag check --html` makes the pages, Chromium shows their first screen, wide and narrow, light and dark. Look at every
picture before it is committed.
"""

import shutil
import subprocess
import sys
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from playwright.sync_api import Page, sync_playwright

from tools.palette_png import render_palette_png

CASES = {
    "seed-bias": "seed_flce[False-float32-True-1-4-32-16]",
    "folded-convert": "bf16_flce[False-True-1-4-32-16]",
    "sharded-trivial": "sharded_flce[vocabulary-trivial]",
}
OTHERS = ("saved_residual*", "in_flight*", "flce_modes[aliased-float32-True-1-4-32-16]", "loop_carry*")
"""Cases that stand in the index beside these."""
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
_PIXELS = """async (png) => {
  const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
  const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
  canvas.drawImage(image, 0, 0);
  const bytes = canvas.getImageData(0, 0, image.width, image.height).data;
  let text = "";
  for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
  return [image.width, image.height, btoa(text)];
}"""
"""Chromium unpacks what it took: width, height and the pixels as RGBA in base64."""


def write_pages(directory: Path) -> None:
    """All of `CASES` and `OTHERS`, with numbers."""
    words = ["check", *CASES.values(), *OTHERS, "--html", str(directory)]
    subprocess.run([sys.executable, "-m", "ligerdiag.cli", *words], check=False, stdout=subprocess.DEVNULL)


def find_page(directory: Path, case_id: str) -> Path:
    """The page that says that it is the case's."""
    found = [path for path in sorted(directory.glob("*.html")) if f"<h1>{case_id}</h1>" in path.read_text("utf-8")]
    if len(found) != 1:
        raise SystemExit(f"expected one page of `{case_id}` in `{directory}` but got {len(found)}")
    return found[0]


def write_screenshots(pages: Path, directory: Path) -> None:
    """`<name>-<light|dark>-<width>.png` of each."""
    shown = {name: find_page(pages, case_id) for name, case_id in CASES.items()} | {"index": pages / "index.html"}
    directory.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        path = shutil.which("chromium") or BROWSER
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        for scheme in ("light", "dark"):
            for width, height in SIZES.items():
                page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
                for name, file in shown.items():
                    write_screenshot(page, file, directory / f"{name}-{scheme}-{width}.png")
                page.close()
        browser.close()


def write_screenshot(page: Page, file: Path, target: Path) -> None:
    """The first screen, without a cursor or a scroll bar."""
    page.goto(file.as_uri())
    picture = page.screenshot(animations="disabled", caret="hide")
    page.goto("about:blank")
    width, height, packed = page.evaluate(_PIXELS, b64encode(picture).decode("ascii"))
    pixels = np.frombuffer(b64decode(packed), dtype=np.uint8).reshape(height, width, 4)[:, :, :3]
    target.write_bytes(render_palette_png(pixels))
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
