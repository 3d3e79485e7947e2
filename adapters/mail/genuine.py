"""Whether the provider found a mail's sender to be genuine: RFC 8601.

Only the topmost header of the provider's own name is looked at: it writes above what came, and
whoever sent the mail may have written any number of such headers below.
"""

import re
from email.message import EmailMessage

_COMMENT = re.compile(r"\([^()]*\)")
_RESULT = re.compile(r"^\s*([a-z-]+)\s*=\s*([a-z]+)(.*)$", re.IGNORECASE | re.DOTALL)
_PROPERTY = re.compile(r"([a-z]+\.[a-z-]+)\s*=\s*(\S+)", re.IGNORECASE)


def is_genuine(mail: EmailMessage, sender: str, verified_by: str) -> bool:
    """Whether DMARC passed, or DKIM or SPF did for the sender's own domain (or one above it)."""
    domain = sender.rpartition("@")[2]
    for header in mail.get_all("Authentication-Results", []):
        name, _, rest = _COMMENT.sub(" ", str(header)).partition(";")
        if name.split()[:1] != [verified_by]:
            continue
        return any(_passes(result, domain) for result in rest.split(";"))
    return False


def _passes(result: str, domain: str) -> bool:
    found = _RESULT.match(result)
    if found is None or found[2].lower() != "pass":
        return False
    pairs: list[tuple[str, str]] = _PROPERTY.findall(found[3])
    values = {name.lower(): value.strip('"').lower() for name, value in pairs}
    match found[1].lower():
        case "dmarc":
            return values.get("header.from", domain).rpartition("@")[2] == domain
        case "dkim":
            signer = values.get("header.d") or values.get("header.i", "").rpartition("@")[2]
            return _covers(signer, domain)
        case "spf":
            return _covers(values.get("smtp.mailfrom", "").rpartition("@")[2], domain)
    return False


def _covers(signer: str, domain: str) -> bool:
    # A public suffix signs for nobody: it must have a dot.
    return signer == domain or ("." in signer and domain.endswith(f".{signer}"))
