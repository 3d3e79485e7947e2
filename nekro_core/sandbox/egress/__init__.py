"""Network access for boxes: only to the names that the operator allows, and only through the host.

A box has no network. If a box has rules, an HTTP proxy in the host accepts connections from the box
at the box's ``127.0.0.1:3128``. The proxy checks the requested name, resolves it, refuses addresses
that are not public, and connects to an address that it has checked. Each box has an owner, for
example a chat. ::

    rules.py      EgressRules: which destinations are allowed
    dial.py       resolves a name, checks the addresses, connects to one of them
    proxy.py      the proxy of one box, which serves each of its connections
    plain_http.py forwards a request without encryption
    relay.py      relays bytes in both directions
    limits.py     EgressLimits, and TrafficBudget: the traffic that each owner may use
    environment.py  the variables that tell programs in a box the proxy's address
    overrides.py  rules of single owners and boxes, in a file that may change
    refusals.py   EgressRefusals: counts what was refused
    admin.py      EgressAdmin: shows and changes the rules while the bot runs
    egress.py     Egress: opens, closes and changes the proxies of all boxes while the boxes run
"""

from nekro_core.sandbox.egress.egress import Allow, Egress
from nekro_core.sandbox.egress.environment import box_environment
from nekro_core.sandbox.egress.limits import EgressLimits
from nekro_core.sandbox.egress.rules import EgressDenied, EgressRules

__all__ = ["Allow", "Egress", "EgressDenied", "EgressLimits", "EgressRules", "box_environment"]
