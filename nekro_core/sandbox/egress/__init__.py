"""Network access for boxes: only to the names that the operator allows, and only through the host.

A box has no network. If rules allow it something, the host listens at ``127.0.0.1:3128`` in the
box. There an HTTP proxy checks the name, resolves it itself, refuses addresses that are not public,
and connects to the address that it checked. ::

    rules.py      what may be reached, and how a destination is written
    dial.py       resolves a name, checks the addresses, connects to one of them
    proxy.py      the proxy of one box, which serves each of its connections
    plain_http.py forwards a request without encryption
    relay.py      relays bytes in both directions
    limits.py     EgressLimits, and the traffic that each owner may use
    environment.py  the variables that tell programs in a box where the proxy is
    overrides.py  rules of single owners and boxes, in a file that is watched
    egress.py     Egress: opens, closes and changes the proxies of all boxes while they run; also
                  serves boxes without an owner
"""

from nekro_core.sandbox.egress.egress import Allow, Egress
from nekro_core.sandbox.egress.environment import box_environment
from nekro_core.sandbox.egress.limits import EgressLimits
from nekro_core.sandbox.egress.rules import EgressDenied, EgressRules

__all__ = ["Allow", "Egress", "EgressDenied", "EgressLimits", "EgressRules", "box_environment"]
