"""Makes the two parts of a plugin's key from any texts.

Authors of plugins for nekro-agent write their names freely: ``Momo-chan``, ``Nekro Gopher``. The
key of a plugin is part of file names, of URLs and of settings, so the key may have only ASCII
letters, digits, ``_`` and ``-``.
"""

import hashlib
import keyword
import re

LONGEST = 64
"""Maximum number of characters of a name that is used unchanged. Keys are part of file names, which
must not be too long."""

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*\Z")
_FOLDED = re.compile(r".*-[0-9a-f]{12}\Z", re.DOTALL)
_SHOWN = 40


def author_key(author: str) -> str:
    """Get the author's part of a plugin's key.

    A name of at most 64 letters, digits, ``_`` and ``-`` is returned unchanged, unless it begins
    with ``-``. In any other name, each sequence of characters except letters, digits and ``_`` is
    replaced with one ``_``, the result is cut to 40 characters, and ``-`` and 12 hexadecimal digits
    of the name's SHA-256 are appended: ``Nekro Gopher`` becomes ``Nekro_Gopher-`` and the digits. A
    name that already ends in ``-`` and 12 such digits gets digits too. So two authors have the same
    key only if these digits are equal, which happens once in 2**48.
    """
    if _PLAIN.match(author) and len(author) <= LONGEST and not _FOLDED.match(author):
        return author
    left = re.sub(r"[^A-Za-z0-9_]+", "_", author).strip("_")[:_SHOWN] or "author"
    digest = hashlib.sha256(author.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{left}-{digest[:12]}"


def module_key(module_name: str) -> str:
    """Get the module's part of a plugin's key, which is also the name before the dot by which code
    calls the plugin's functions.

    An identifier is returned unchanged. In any other name, ``-``, ``.`` and spaces are replaced
    with ``_``: ``nekro-plugin-news`` becomes ``nekro_plugin_news``. If the result is not an
    identifier, its other characters are replaced with ``_`` too, it is cut to 40 characters, and
    ``_`` and 12 hexadecimal digits of the name's SHA-256 are appended. If two plugins of one author
    have the same key, the second is refused when it is loaded.
    """
    name = re.sub(r"[-. ]", "_", module_name)
    if name.isascii() and name.isidentifier() and not keyword.iskeyword(name):
        return name
    left = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")[:_SHOWN]
    digest = hashlib.sha256(module_name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{'m_' if not left or left[0].isdigit() else ''}{left}_{digest[:12]}"


def folded_key(key: str) -> str:
    """Get the key of a plugin from ``author.module_name`` as the plugin writes them."""
    author, _, module = key.rpartition(".")
    return f"{author_key(author)}.{module_key(module)}"
