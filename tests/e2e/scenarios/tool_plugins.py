"""Plugins of the bot with many functions: 60 tools, most of which the model must search for, and
one plugin written like the example in the guide for plugin authors."""

_HEAD = """\
from nekro_core.api.plugin import NekroPlugin, SandboxMethodType, ToolFailure
from nekro_core.api.schemas import AgentCtx

"""
_OFFICE = (
    ("train_times", "from_city: str, to_city: str", "Find the next trains between two cities."),
    ("book_room", "room: str, hour: int", "Book a meeting room."),
    ("library_search", "title: str", "Search the catalogue of the city's library."),
    ("parcel_status", "number: str", "Say where a parcel is."),
    ("recipe_of_day", "", "Get the recipe of the day."),
    ("tide_table", "harbour: str", "Get the times of high and low water of a harbour."),
)
_RATE = '''
_RATES = {"USD": 1.08, "GBP": 0.85, "JPY": 161.5, "CHF": 0.95}


@plugin.mount_sandbox_method(
    SandboxMethodType.TOOL, "exchange_rate", "Get the exchange rate of two currencies today."
)
async def exchange_rate(_ctx: AgentCtx, currency: str, base: str = "EUR") -> float:
    """Get how many units of a currency one unit of the base buys today.

    Args:
        currency: A code such as USD, GBP, JPY or CHF.
        base: Only EUR is known.
    """
    if base != "EUR" or currency not in _RATES:
        raise ToolFailure(f"{base} to {currency}: known are EUR to {', '.join(_RATES)}")
    return _RATES[currency]
'''


def _office() -> str:
    lines = [
        _HEAD,
        "plugin = NekroPlugin(",
        '    name="Office", module_name="office", description="Tools of an office.",',
        '    version="1.0.0", author="ann", url="", allow_sleep=True,',
        '    sleep_brief="trains, rooms, parcels, library, tides, exchange rates, counters",',
        ")",
        _RATE,
    ]
    lines += [_tool(*each) for each in _OFFICE]
    lines += [
        _tool(f"counter_{number}", "", f"Read the counter of the machine {number}.")
        for number in range(1, 54)
    ]
    return "\n".join(lines)


def _tool(name: str, parameters: str, says: str) -> str:
    more = f", {parameters}" if parameters else ""
    return f'''
@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "{name}", "{says}")
async def {name}(_ctx: AgentCtx{more}) -> str:
    """{says}"""
    return "nothing today"
'''


_ORDERS = (
    _HEAD
    + '''\
plugin = NekroPlugin(
    name="Orders", module_name="orders", description="Order food for the team.",
    version="1.0.0", author="ann", url="",
)
_SIZES = ("small", "large")


@plugin.mount_sandbox_method(SandboxMethodType.TOOL, "order_pizza", "Order pizzas for the team.")
async def order_pizza(_ctx: AgentCtx, pizzas: dict[str, int], size: str = "large") -> str:
    """Order pizzas for the team from the place around the corner.

    Args:
        pizzas: How many of each kind, such as {"margherita": 2}.
        size: small or large.

    Returns:
        The number of the order and the price.
    """
    if size not in _SIZES:
        raise ToolFailure(f"size {size!r}: expected small or large")
    if not pizzas or min(pizzas.values()) < 1:
        raise ToolFailure(f"{pizzas!r}: order at least one pizza of each kind")
    if unknown := set(pizzas) - {"margherita", "funghi", "diavola"}:
        raise ToolFailure(
            f"{', '.join(sorted(unknown))}: not on the menu today; there are margherita, funghi "
            "and diavola"
        )
    price = sum(pizzas.values()) * (11 if size == "large" else 8)
    return f"order 4711, {price} euros"


@plugin.mount_prompt_inject_method("orders")
async def inject(_ctx: AgentCtx) -> str:
    """What the model is told in every prompt."""
    return "The kitchen closes at 22:00. The team has 90 euros left."
'''
)
PLUGINS = {"office.py": _office(), "orders.py": _ORDERS}
