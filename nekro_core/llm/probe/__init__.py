"""Tests an endpoint for the operator: whether it can be reached, accepts the key and knows the
model; how fast it is; and what it can do.

::

    report.py     the values that a probe returns
    network.py    name, connection and TLS, each checked on its own
    listing.py    the list of models that the endpoint offers
    requests.py   small requests: speed, pictures, functions
    endpoint.py   runs the steps in order, within limits of time and tokens
"""

from nekro_core.llm.probe.report import EndpointReport, ProbeResult, ProbeStep, ProbeVerdict

__all__ = [
    "EndpointReport",
    "ProbeResult",
    "ProbeStep",
    "ProbeVerdict",
]
