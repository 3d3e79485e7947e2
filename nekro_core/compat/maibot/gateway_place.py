"""Decides which adapter and account of the bot a plugin's message gateway uses."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from nekro_core.compat.maibot.formats.messages import adapter_of, gateway_adapter_of
from nekro_core.compat.maibot.onebot import connected_bots
from nekro_core.system.errors import NekroError


class GatewayRefused(NekroError):
    """A gateway cannot be used. The text is for the operator, and says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayPlace:
    """The adapter and account of a gateway.

    ``adapter`` and ``account`` decide the chats in which the gateway's messages arrive. ``shared``
    is true if another adapter sends to these chats. Then the gateway only adds received messages.
    ``beside`` is the name of the bot's own adapter of the same platform; it is empty if there is
    none.
    """

    adapter: str
    account: str
    shared: bool = False
    beside: str = ""


def choose_place(
    platform: str,
    account: str,
    *,
    gateway: str,
    only_receives: bool,
    own_adapters: Collection[str],
    running: Collection[str],
    accounts: Mapping[str, Mapping[str, str]],
    serving: str,
) -> GatewayPlace:
    """Choose the adapter and account for a gateway that connects.

    Args:
        platform: MaiBot's name of the platform.
        account: The account that the gateway reports; may be empty.
        gateway: The gateway's name. It is used as the account if no account is known.
        only_receives: Whether the gateway cannot send.
        own_adapters: Names of the bot's own adapters, whether or not an account uses them.
        running: Names of the running adapters that are not gateways.
        accounts: For each adapter that may serve the platform, its known accounts with their
            instances.
        serving: The account of another gateway that sends to this platform already; empty if there
            is none.

    Raises:
        GatewayRefused: No platform is named, or the account or the platform is in use.
    """
    name = clean_name(adapter_of(platform))
    if not name:
        raise GatewayRefused("it names no platform: give one in @MessageGateway or update_state")
    beside = name if name in own_adapters else ""
    if beside:
        own = accounts.get(beside, {})
        if only_receives and own:
            chosen = account if account in own else next(iter(own))
            return GatewayPlace(adapter=beside, account=chosen, shared=True)
        _refuse_double(platform, account, own)
        name = clean_name(gateway_adapter_of(platform))
    if serving:
        if not only_receives:
            raise GatewayRefused(
                f"another gateway sends to {platform} already: switch off one of the two plugins"
            )
        return GatewayPlace(adapter=name, account=serving, shared=True, beside=beside)
    if name in running:
        raise GatewayRefused(f"an adapter of the bot is called {name} already")
    known = accounts.get(name, {})
    return GatewayPlace(adapter=name, account=account or next(iter(known), gateway), beside=beside)


def _refuse_double(platform: str, account: str, own: Iterable[str]) -> None:
    """Raise `GatewayRefused` if the bot's own adapter is connected to the gateway's account, or to
    any account if the gateway reports none. ``own`` are the accounts of the bot's own adapter."""
    connected = [each for each in own if each in connected_bots()]
    if account in connected or (connected and not account):
        named = (
            f"account {account}" if account else f"account {connected[0]}, perhaps the same one,"
        )
        raise GatewayRefused(
            f"{named} of {platform} is connected to the bot itself, and each message would be "
            "answered twice: switch this plugin off, or disconnect the account's client from the "
            "bot's own address, or let the gateway report another account_id"
        )


def clean_name(name: str) -> str:
    """Replace each character that an adapter's name cannot have by ``_``."""
    return "".join(
        each if each.isascii() and (each.isalnum() or each in "_.") else "_" for each in name
    )
