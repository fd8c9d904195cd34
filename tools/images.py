"""The images of the docs, made anew:  sudo .venv/bin/python tools/images.py [NAME...]

Each image is a file that a command of the docs writes; here is which. Results stay in
results/images/, so that a second call runs only what has not finished. Without names all images are
made, which takes about two hours; --list prints them. Some need root for Mininet, and `report`
needs Chromium.

Every image has its numbers in its text Description (testbed/analysis/figures/figure_files.py), and
tests/unit/repository/test_doc_images.py compares them with the tables beside it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
RESULTS = ROOT / "results" / "images"
FIGURES = (
    "headline",
    "memory",
    "jobs",
    "rate",
    "loss",
    "ablation",
    "priority",
    "baselines",
    "sharing",
    "throughput",
    "mix",
)


@dataclass(frozen=True)
class Image:
    """`words`: of the command, without `ina`, or after `python`; `file`: where it writes the image,
    below RESULTS, a pattern of which the newest counts."""

    words: tuple[str, ...]
    file: str
    finish: Callable[[Path, Path], None] = shutil.copyfile


def page_of_quickstart(report: Path, image: Path) -> None:
    """The parts of a report about time and memory, as a browser shows them."""
    from PIL import Image as Picture
    from PIL.PngImagePlugin import PngInfo
    from playwright.sync_api import sync_playwright

    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))))
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = launched.new_page(viewport={"width": 1100, "height": 900}, color_scheme="light")
        page.goto(report.as_uri())
        page.wait_for_function(
            "Number(document.documentElement.dataset.drawn) >= 10"
            " || document.querySelectorAll('#memory .main-svg').length > 2"
        )
        page.evaluate(
            "const parts = 'section, details, header, .controls, .table';"
            "document.querySelectorAll(parts).forEach((each) => {"
            " if (!['time', 'memory'].includes(each.id)) each.hidden = true; });"
            "document.querySelectorAll('#chart-pool-s1').forEach((each) =>"
            " { each.closest('figure').hidden = true; })"
        )
        page.locator("main").screenshot(path=image)
        launched.close()
    said = PngInfo()
    said.add_text("Description", json.dumps({"run": report.parent.name}))
    with Picture.open(image) as picture:
        picture.load()
    picture.save(image, pnginfo=said, optimize=True)


def occupancy(figure: Path, image: Path) -> None:
    """The figure, which also says of which run it is."""
    from PIL import Image as Picture
    from PIL.PngImagePlugin import PngInfo

    with Picture.open(figure) as picture:
        picture.load()
    said = PngInfo()
    numbers = json.loads(picture.text["Description"])
    said.add_text("Description", json.dumps({"run": figure.parents[1].name, "numbers": numbers}))
    picture.save(image, pnginfo=said, optimize=True)


QUICKSTART = ("experiments/quickstart.yaml",)
QUICKSTART_FIGURE = "quickstart-*/figures/occupancy.png"
MADE = {
    "demo": Image(("sweep", "experiments/demo.yaml"), "demo/figures/measures.png"),
    "quickstart-occupancy": Image(QUICKSTART, QUICKSTART_FIGURE, occupancy),
    "report": Image(QUICKSTART, "quickstart-*/report.html", page_of_quickstart),
    "compare-jct": Image(("sweep", "experiments/compare.yaml"), "compare/figures/jct.png"),
    "memory": Image(("sweep", "experiments/memory.yaml"), "memory/figures/measures.png"),
    "loss": Image(("sweep", "experiments/loss.yaml"), "loss/figures/measures.png"),
    "grid-example": Image(
        ("plan", "topos/graphs/grid-example.txt", "--planner", "none,nearest,grid-links",
         "--figure", "results/images/grid-example.png"),
        "grid-example.png",
    ),
    "rank-graph": Image(
        ("workload", "experiments/llama.yaml", "--figure", "results/images/rank-graph.png"),
        "rank-graph.png",
    ),
    "costs": Image(
        ("-m", "tools.expected_costs", "--figure", "results/images/costs.png"), "costs.png"
    ),
    "number-formats": Image(
        ("recording", "traffic/recordings/train_clicks.npz",
         "--figure", "results/images/number-formats.png"),
        "number-formats.png",
    ),
    **{
        name: Image(("figure", name), f"{name}/figures/{name}.png")
        for name in ("grid-rate", "grid-skew")
    },
    **{
        f"figure-{name}": Image(("figure", name), f"{name}/figures/{name}.png") for name in FIGURES
    },
    "figure-pays": Image(
        ("figure", "pays", "--scale", "0.125"), "pays-x0.125/figures/pays-x0.125.png"
    ),
    "figure-occupancy": Image(
        ("figure", "occupancy"), "occupancy/figures/occupancy-over-time.png"
    ),
}  # fmt: skip


def main() -> int:
    """Make the images that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="images, without .png")
    parser.add_argument("--list", action="store_true", help="print the names and their commands")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in MADE]:
        parser.error(f"there is no image {unknown[0]}; images are: {', '.join(MADE)}")
    chosen = {name: MADE[name] for name in options.names or MADE}
    if options.list:
        for name, image in chosen.items():
            before = "python" if image.words[0] == "-m" else "ina"
            print(f"{name}: {before} {' '.join(image.words)}")
        return 0
    RESULTS.mkdir(parents=True, exist_ok=True)
    ran: set[tuple[str, ...]] = set()
    for name, image in chosen.items():
        if image.words not in ran:
            ran.add(image.words)
            words = [*image.words]
            if finished := [each.parents[1] for each in RESULTS.glob(QUICKSTART_FIGURE)]:
                words = ["report", str(finished[-1])] if image.words == QUICKSTART else words
            if words[0] in ("sweep", "figure") or words == [*QUICKSTART]:
                words += ["--results", str(RESULTS)]
            command = words if words[0] == "-m" else ["run.py", *words]
            subprocess.run([sys.executable, *command], cwd=ROOT, check=True)
        files = sorted(RESULTS.glob(image.file), key=lambda each: each.stat().st_mtime)
        image.finish(files[-1], IMAGES / f"{name}.png")
        print(f"docs/images/{name}.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
