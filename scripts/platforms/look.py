"""Runs in a test environment. Loads one adapter and prints what uniseg's code for this adapter can
do."""

import importlib
import json
import sys
import warnings

warnings.simplefilter("ignore")

import nonebot  # noqa: E402 - warnings first


def main() -> None:
    """Print as JSON the adapter's name, the kinds of segments that uniseg sends and reads, and
    whether uniseg can recall, edit and react."""
    module, known_as = sys.argv[1:3]
    nonebot.init(_env_file=None, log_level="CRITICAL", driver="~fastapi+~httpx+~websockets")
    adapter = importlib.import_module(module).Adapter
    nonebot.require("nonebot_plugin_alconna")
    uniseg = importlib.import_module("nonebot_plugin_alconna.uniseg.adapters")
    known = importlib.import_module("nonebot_plugin_alconna.uniseg.constraint").SupportAdapter
    name = known[known_as].value
    base = importlib.import_module("nonebot_plugin_alconna.uniseg.exporter").MessageExporter
    exporter, builder = uniseg.alter_get_exporter(name), uniseg.alter_get_builder(name)
    can = [verb for verb in ("recall", "edit", "reaction")
           if getattr(type(exporter), verb) is not getattr(base, verb)]  # fmt: skip
    seen = {
        "name": adapter.get_name(),
        # This attribute is private, but no public attribute has these mappings.
        "sends": sorted(form.__name__ for form in exporter._mapping),  # noqa: SLF001
        "reads": sorted(builder._mapping),  # noqa: SLF001
        "can": can,
    }
    print(json.dumps(seen))  # noqa: T201 - it is what prints


main()
