"""The way out of a box: only to the names that its operator allows, and only through the host.

A box has no network. Where something is allowed, its ``127.0.0.1:3128`` is answered by the host: an
HTTP proxy, which checks the name, resolves it itself, refuses addresses that are not public, and
connects to the address that it checked. ::

    rules.py      what may be reached, and how a destination is written
    dial.py       a name becomes a checked address becomes a connection
    proxy.py      one box's way out: what happens to each connection
    plain_http.py a request without encryption, passed on
    relay.py      bytes both ways, until either side is done
    limits.py     EgressLimits, and how much one owner may carry
    environment.py  what programs in a box read to find it
    overrides.py  rules of single owners and boxes, in a file that is followed
    egress.py     Egress: all boxes' ways out, opened, closed and changed while they run; boxes
                  that belong to nobody, with what everyone may reach
"""

from nekro_core.sandbox.egress.egress import Allow, Egress
from nekro_core.sandbox.egress.environment import box_environment
from nekro_core.sandbox.egress.limits import EgressLimits
from nekro_core.sandbox.egress.rules import EgressDenied, EgressRules

__all__ = ["Allow", "Egress", "EgressDenied", "EgressLimits", "EgressRules", "box_environment"]
