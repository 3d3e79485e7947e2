"""The English sentences of a probe (a test of a model's endpoint), by their codes. The console has
the same sentences in English, Chinese and Japanese."""

from collections.abc import Mapping
from types import MappingProxyType

Values = Mapping[str, str | int | float]

TEXTS: Mapping[str, str] = MappingProxyType(
    {
        "name_timeout": "the name {host} was not found within {limit} s",
        "name_not_found": "there is no host {host}, or DNS does not work here",
        "found": "{host} is {address}",
        "refused": "{host} refuses connections: no program listens there",
        "connection_timeout": "{host} did not answer within {limit} s",
        "no_connection": "there is no connection to {host}: {error}",
        "connected": "{host} takes connections",
        "behind_proxy": "the proxy makes the connection to the endpoint",
        "not_used": "the address begins with http://, so nothing is encrypted",
        "tls_timeout": "{host} did not answer the TLS handshake",
        "certificate": "the certificate of {host} is not accepted: {error}",
        "no_tls": "{host} does not speak TLS",
        "encrypted": "the certificate of {host} is valid ({version})",
        "answered": "the server answers",
        "no_list": "the server answers, but has no list of models",
        "listed": "the server offers {number} models",
        "key_accepted": "the provider takes the key",
        "key_not_needed": "the server asks for no key",
        "key_missing": "the provider asks for a key, and none is set",
        "model_known": "the model {model} answers",
        "unknown_model": "the provider has no model {model}",
        "measured": "first words after {first} s",
        "measured_rate": "first words after {first} s, then {rate} tokens a second",
        "takes_no_pictures": "the model takes no pictures: {error}",
        "read_picture": "the model read the number in a picture",
        "did_not_read_picture": "the model did not read the number in a picture",
        "takes_no_functions": "the model takes no functions: {error}",
        "called_function": "the model called a function with the right argument",
        "called_no_function": "the model did not call the function it was asked to call",
        "broken_call": "the model's call of a function is broken: {error}",
        "wrong_call": "the model called a function with the wrong name or argument",
        "context_not_told": "nobody says how long a prompt may be",
        "context_of_server": (
            "the server says prompt and reply may have {told} tokens; the setting is {wanted}"
        ),
        "context_published": (
            "it is published that prompt and reply may have {told} tokens; the setting is {wanted}"
        ),
        "out_of_time": "there was no time left",
        "not_tried": "an earlier step failed",
    }
)
"""What a step of the probe found, by code. If a server explains an error in its own words, these
words are shown instead, and the result has no code."""

ADVICE: Mapping[str, str] = MappingProxyType(
    {
        "check_dns": "Check this machine's DNS server.",
        "check_proxy_name": (
            "Check the spelling of the proxy, and that this machine can look up names."
        ),
        "check_base_url": (
            "Check the spelling of base_url, and that this machine can look up names."
        ),
        "check_port": (
            "Check the port and that the server runs. Another container is not at 127.0.0.1."
        ),
        "check_firewall": (
            "A firewall may block the way, or the provider may need a proxy from here."
        ),
        "check_network": "Check this machine's network.",
        "write_http": "If the server does not encrypt, write http:// instead of https://.",
        "check_certificate": (
            "Check this machine's clock and the address. For a certificate of your own, add its "
            "authority to the machine's trusted ones, or set SSL_CERT_FILE."
        ),
        "write_http_or_check_port": (
            "If the server does not encrypt, write http:// instead of https://. Otherwise check "
            "the port."
        ),
        "check_scheme": (
            "Check that the address and the port are those of an API, and whether it begins "
            "with http:// or https://."
        ),
        "server_error": (
            "Wait, look at the provider's status page, or check that base_url is complete."
        ),
        "make_key": "Make a key on the provider's page and put it into api_key.",
        "copy_key": (
            "Copy the key again from the provider's page, and check that it belongs to this "
            "provider and region."
        ),
        "near_models": "Perhaps one of these is meant: {near}.",
        "choose_listed": "Choose a model of its list.",
        "check_model": (
            "Check the name of the model, and that base_url is the API's address, which usually "
            "ends in /v1."
        ),
        "check_balance": "Check the balance and the limits of the account.",
        "harmless_declined": "A filter of the provider declines a harmless text.",
        "broken_often": "Test again. If it happens often, ask the provider.",
        "overloaded": "The model may be overloaded or still loading. Test again in a minute.",
        "test_again": "Test again.",
        "set_vision": "Set vision to true. Otherwise a note replaces each picture.",
        "unset_vision": "Set vision to false, or choose a model that sees pictures.",
        "leave_code": (
            'Leave the mode at "code". The mode "tools" needs a model that calls functions.'
        ),
        "look_up_context": "Look it up in the provider's documentation and set context_tokens.",
        "lower_context": "Set context_tokens to at most {told}. Otherwise long prompts fail.",
    }
)
"""What the operator can do about a result, by code."""
