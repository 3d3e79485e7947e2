"""Checks whether the provider verified a mail's sender (RFC 8601).

The provider adds an ``Authentication-Results`` header above all other headers. The sender can write
headers of the same name below it. So only the topmost header with the provider's name is read.

The provider's header quotes text that the sender chose: the part of an address before the ``@`` may
be ``"x; dmarc=pass"``. So text between quotation marks is never read as a result. If the header has
more than one DMARC result, or a quotation that does not end, the sender counts as not verified.
"""

import re
from email.message import EmailMessage

_SEPARATORS = frozenset("; =()\t")
_RESULT = re.compile(r"^\s*([a-z-]+)\s*=\s*([a-z]+)(.*)$", re.IGNORECASE | re.DOTALL)
_PROPERTY = re.compile(r"([a-z]+\.[a-z-]+)\s*=\s*(\S+)", re.IGNORECASE)


def is_sender_verified(mail: EmailMessage, sender: str, verified_by: str) -> bool:
    """Return True if the provider's header says that DMARC passed, or that DKIM or SPF passed for
    the sender's domain or a parent of it. A failed DMARC result outweighs these. ``verified_by`` is
    the provider's name in the header."""
    domain = sender.rpartition("@")[2]
    for header in mail.get_all("Authentication-Results", []):
        text = str(header)
        if text.replace("(", " ").replace(";", " ").split()[:1] != [verified_by]:
            continue
        plain = _plain(text)
        if plain is None:
            return False
        results = [result for each in plain.split(";")[1:] if (result := _RESULT.match(each))]
        dmarc = [result for result in results if result[1].lower() == "dmarc"]
        if len(dmarc) > 1 or any(result[2].lower() == "fail" for result in dmarc):
            return False
        return any(_passes(result, domain) for result in results)
    return False


def _plain(text: str) -> str | None:
    """Remove the comments of the header, and replace separators inside quotations by ``_``. None if
    a comment or a quotation does not end, or if they overlap."""
    plain: list[str] = []
    depth, quoted, open_in_comment = 0, False, False
    characters = iter(text)
    for character in characters:
        if character == "\\" and (quoted or depth):
            next(characters, None)
        elif quoted:
            quoted = character != '"'
            plain.append("_" if character in _SEPARATORS else character)
        elif character == '"' and depth:
            open_in_comment = not open_in_comment
        elif character == '"':
            quoted = True
            plain.append(character)
        elif character == "(":
            depth += 1
        elif character == ")" and depth:
            depth -= 1
            if open_in_comment:
                return None
        elif not depth:
            plain.append(character)
    return None if quoted or depth else "".join(plain)


def _passes(result: re.Match[str], domain: str) -> bool:
    if result[2].lower() != "pass":
        return False
    values: dict[str, str] = {}
    for name, value in _PROPERTY.findall(result[3]):
        values.setdefault(name.lower(), value.strip('"').lower())
    match result[1].lower():
        case "dmarc":
            return values.get("header.from", "").rpartition("@")[2] == domain
        case "dkim":
            signer = values.get("header.d") or values.get("header.i", "").rpartition("@")[2]
            return _covers(signer, domain)
        case "spf":
            return _covers(values.get("smtp.mailfrom", "").rpartition("@")[2], domain)
    return False


def _covers(signer: str, domain: str) -> bool:
    # The signer must have a dot: a top-level domain cannot sign for the domains below it.
    return signer == domain or ("." in signer and domain.endswith(f".{signer}"))
