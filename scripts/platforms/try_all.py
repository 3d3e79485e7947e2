"""Try every adapter that uniseg supports on Python 3.11 and 3.12, each in its own environment.

The script writes ``docs/platforms.json``, from which ``docs/platforms.md`` is made. It takes a
quarter of an hour and downloads about 200 packages, so it is not one of the tests. Run
``make platforms`` before a release.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DATA = ROOT / "docs" / "platforms.json"
BASE = ("nonebot2[fastapi,httpx,websockets]>=2.5,<3", "nonebot-plugin-alconna>=0.62.1,<0.63")
PRERELEASES = {"nonebot-adapter-mail", "nonebot-adapter-telegram", "nonebot-adapter-ding",
               "nonebot-adapter-tailchat"}  # fmt: skip
ADAPTERS = {
    "bililive": ("nonebot-adapter-bilibili-live", "nonebot.adapters.bilibili_live"),
    "console": ("nonebot-adapter-console", "nonebot.adapters.console"),
    "ding": ("nonebot-adapter-ding", "nonebot.adapters.ding"),
    "discord": ("nonebot-adapter-discord", "nonebot.adapters.discord"),
    "dodo": ("nonebot-adapter-dodo", "nonebot.adapters.dodo"),
    "efchat": ("nonebot-adapter-efchat", "nonebot.adapters.efchat"),
    "feishu": ("nonebot-adapter-feishu", "nonebot.adapters.feishu"),
    "github": ("nonebot-adapter-github", "nonebot.adapters.github"),
    "heybox": ("nonebot-adapter-heybox", "nonebot.adapters.heybox"),
    "kook": ("nonebot-adapter-kaiheila", "nonebot.adapters.kaiheila"),
    "kritor": ("nonebot-adapter-kritor", "nonebot.adapters.kritor"),
    "mail": ("nonebot-adapter-mail", "nonebot.adapters.mail"),
    "milky": ("nonebot-adapter-milky", "nonebot.adapters.milky"),
    "minecraft": ("nonebot-adapter-minecraft", "nonebot.adapters.minecraft"),
    "mirai": ("nonebot-adapter-mirai", "nonebot.adapters.mirai"),
    "ntchat": ("nonebot-adapter-ntchat", "nonebot.adapters.ntchat"),
    "onebot11": ("nonebot-adapter-onebot", "nonebot.adapters.onebot.v11"),
    "onebot12": ("nonebot-adapter-onebot", "nonebot.adapters.onebot.v12"),
    "qq": ("nonebot-adapter-qq", "nonebot.adapters.qq"),
    "red": ("nonebot-adapter-red", "nonebot.adapters.red"),
    "satori": ("nonebot-adapter-satori", "nonebot.adapters.satori"),
    "tail_chat": ("nonebot-adapter-tailchat", "nonebot_adapter_tailchat"),
    "telegram": ("nonebot-adapter-telegram", "nonebot.adapters.telegram"),
    "vocechat": ("nonebot-adapter-vocechat", "nonebot.adapters.vocechat"),
    "wxmp": ("nonebot-adapter-wxmp", "nonebot.adapters.wxmp"),
    "yunhu": ("nonebot-adapter-yunhu", "nonebot.adapters.yunhu"),
}
"""The adapters of uniseg's ``SupportAdapterModule``: uniseg's name, distribution and module."""
INSTALL_S = 300
LOOK_S = 120
WORDS = 200
"""How many characters of an error are stored at most."""


def main() -> None:
    """Try the adapters one after another, and write the file after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="+", help="interpreters, for example python3.11")
    parser.add_argument("--only", nargs="*", default=[])
    wanted = parser.parse_args()
    data: dict[str, Any] = json.loads(DATA.read_text()) if DATA.exists() else {}
    for python in wanted.pythons:
        with tempfile.TemporaryDirectory(prefix="nekro-platforms-") as place:
            base = Path(place) / "base"
            run([python, "-m", "venv", base], INSTALL_S)
            run([base / "bin" / "python", "-m", "pip", "install", "-q", *BASE], INSTALL_S)
            ask = "import sys; print('%d.%d' % sys.version_info[:2])"
            version = run([base / "bin" / "python", "-c", ask], LOOK_S).strip()
            for name, (distribution, module) in ADAPTERS.items():
                if wanted.only and name not in wanted.only:
                    continue
                outcome = one(base, Path(place) / name, distribution, module, name)
                data.setdefault(name, {"distribution": distribution})[version] = outcome
                DATA.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n")
                say(f"{version} {name}: {outcome.get('failed') or 'loads'}")


def one(base: Path, folder: Path, distribution: str, module: str, name: str) -> dict[str, Any]:
    """Install one adapter in a copy of the base environment, and run `look.py` there."""
    shutil.copytree(base, folder, symlinks=True, copy_function=os.link)
    own = folder / "bin" / "python"
    try:
        pre = ["--pre"] if distribution in PRERELEASES else []
        run([own, "-m", "pip", "install", "-q", *pre, distribution], INSTALL_S)
        ask = f"from importlib.metadata import version; print(version({distribution!r}))"
        version = run([own, "-c", ask], LOOK_S).strip()
        seen = run([own, Path(__file__).with_name("look.py"), module, name], LOOK_S)
        return {"version": version, **json.loads(seen.strip().splitlines()[-1])}
    except subprocess.CalledProcessError as error:
        return {"failed": last_words(error.stderr)}
    except subprocess.TimeoutExpired:
        return {"failed": "did not end in time"}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(command: list[Any], seconds: float) -> str:
    """Run a command and return its output. Raises `subprocess.CalledProcessError`."""
    done = subprocess.run(  # noqa: S603 - our own words
        [str(part) for part in command], capture_output=True, text=True, timeout=seconds, check=True
    )
    return done.stdout


def last_words(text: str) -> str:
    """Return the last line of an output that names an error, without white space around it. If no
    line names an error, return the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = [line for line in lines if "Error" in line or line.startswith("ERROR")]
    return (said or lines or ["no words"])[-1][:WORDS]


def say(line: str) -> None:
    """Print a line of progress."""
    sys.stderr.write(line + "\n")


if __name__ == "__main__":
    main()
