"""A hook of the site: puts the page of the explorer beside the other pages, where live rows are shown in frames."""

import shutil
from pathlib import Path

PAGE = Path(__file__).parent.parent / "omegamax" / "explorer" / "page.html"


def on_post_build(config):
    folder = Path(config["site_dir"]) / "explorer"
    folder.mkdir(exist_ok=True)
    shutil.copyfile(PAGE, folder / "page.html")
