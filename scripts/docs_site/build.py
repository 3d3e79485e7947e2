"""Builds the documentation as a site, with Zensical: ``make docs``.

Zensical builds sites of one language. So this program builds a site for each language, puts the
sites into one folder, and checks all links of the result, also those between languages.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from scripts.docs_site.html_links import broken_links
from scripts.docs_site.navigation import navigation, nested
from scripts.docs_site.pages import LANGUAGES, Site

ROOT = Path(__file__).parents[2]
ZENSICAL = Path(sys.executable).with_name("zensical")
_FEATURES = (
    "content.code.copy",
    "navigation.footer",
    "navigation.indexes",
    "navigation.top",
    "navigation.tracking",
    "search.highlight",
    "toc.follow",
)
_DESCRIPTIONS = {
    "en": "A chat bot whose AI answers by writing Python",
    "zh": "让 AI 用写 Python 代码来回答的聊天机器人",
    "ja": "AI が Python を書いて答えるチャットボット",
}
_DAY_AND_NIGHT = {
    "en": ("Dark colours", "Light colours"),
    "zh": ("深色", "浅色"),
    "ja": ("暗い配色", "明るい配色"),
}


def configuration(site: Site, language: str) -> dict[str, object]:
    """Return the configuration with which Zensical builds the site of a language."""
    dark, light = _DAY_AND_NIGHT[language]
    up = "./" if language == "en" else "../"
    return {
        "site_name": "nekro-core",
        "site_description": _DESCRIPTIONS[language],
        "docs_dir": "docs",
        "site_dir": "site",
        "nav": nested(navigation(site, language)),
        "theme": {
            "language": language,
            "font": False,  # the fonts of the reader's machine: nothing is fetched from elsewhere
            "features": list(_FEATURES),
            "palette": [
                {"scheme": "default", "toggle": {"icon": "lucide/moon", "name": dark}},
                {"scheme": "slate", "toggle": {"icon": "lucide/sun", "name": light}},
            ],
        },
        "extra": {
            "alternate": [
                {"name": name, "link": up if each == "en" else f"{up}{each}/", "lang": each}
                for each, name in LANGUAGES.items()
            ],
        },
        "markdown_extensions": {
            "admonition": {},
            "attr_list": {},
            "md_in_html": {},
            "tables": {},
            # In links, headings get the same names as on GitHub.
            "toc": {
                "permalink": True,
                "slugify": {"object": "pymdownx.slugs.slugify", "kwds": {"case": "lower"}},
            },
            "pymdownx": {
                "highlight": {"anchor_linenums": False},
                "superfences": {},
            },
        },
    }


def as_toml(value: object) -> str:
    """Write a value as TOML, in one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case Mapping():
            return "{ " + ", ".join(f"{as_toml(k)} = {as_toml(v)}" for k, v in value.items()) + " }"
        case list():
            return f"[{', '.join(as_toml(each) for each in value)}]"
        case _:
            raise TypeError(f"{type(value).__name__} has no form in the configuration")


def build(root: Path, target: Path) -> None:
    """Build the site of all languages into ``target``, which is replaced. Raises
    `subprocess.CalledProcessError` if Zensical finds a fault, and `SystemExit` if a link leads
    nowhere."""
    site = Site.read(root)
    with tempfile.TemporaryDirectory() as made:
        whole = Path(made) / "whole"
        for language in LANGUAGES:
            project = Path(made) / language
            site.write(language, project / "docs")
            lines = [f"{k} = {as_toml(v)}" for k, v in configuration(site, language).items()]
            text = "\n".join(["[project]", *lines, ""])
            (project / "zensical.toml").write_text(text, "utf-8")
            print(f"{LANGUAGES[language]} ...", flush=True)
            subprocess.run(  # noqa: S603 - our own arguments
                [ZENSICAL, "build", "--strict", "--clean"], cwd=project, check=True
            )
            place = whole if language == "en" else whole / language
            shutil.copytree(project / "site", place, dirs_exist_ok=True)
        if broken := broken_links(whole):
            raise SystemExit("\n".join(["links without a target:", *broken]))
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(whole, target)


def main() -> None:
    """Parse the command line and build."""
    parser = argparse.ArgumentParser(prog="make docs", description=__doc__)
    parser.add_argument("target", nargs="?", default="site", help="the folder of the site")
    target = Path(parser.parse_args().target)
    build(ROOT, target)
    print(f"the site is in {target}: python3 -m http.server --bind 127.0.0.1 -d {target}")


if __name__ == "__main__":
    main()
