"""Encrypts the secrets of a backup with a passphrase.

The key is made from the passphrase with scrypt. The data is cut into chunks, and each chunk is
encrypted with ChaCha20-Poly1305. The nonce of a chunk contains the number of the chunk, and says
whether it is the last chunk. So decrypting fails if a chunk was left out, repeated or moved (the
STREAM construction of Hoang, Reyhanitabar, Rogaway and Vizár, 2015). Format: `HEADER`, 16 bytes of
salt, then the chunks.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from nekro_core.backup.errors import BackupRefused, WrongPassphrase

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

HEADER = b"nekro-secrets-1\n"
SHORTEST_PASSPHRASE = 8
"""Minimum number of characters of a passphrase. Somebody who has the file can try any number of
passphrases."""

_SALT_BYTES = 16
_CHUNK = 64 * 1024
_TAG_BYTES = 16
_SCRYPT_COST = 2**17
"""scrypt's N. One guess takes 128 MiB and about 0.3 s."""


def encrypt(data: bytes, passphrase: str) -> Iterator[bytes]:
    """Yield the encrypted data in pieces. Raises `BackupRefused` for a short passphrase."""
    if len(passphrase) < SHORTEST_PASSPHRASE:
        raise BackupRefused(
            f"the passphrase has {len(passphrase)} characters, expected {SHORTEST_PASSPHRASE} or "
            "more: whoever has the file can try short ones"
        )
    salt = os.urandom(_SALT_BYTES)
    cipher = _cipher(passphrase, salt)
    yield HEADER + salt
    pieces = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)] or [b""]
    for number, piece in enumerate(pieces):
        yield cipher.encrypt(_nonce(number, last=number == len(pieces) - 1), piece, HEADER)


def decrypt(source: BinaryIO, passphrase: str) -> bytes:
    """Return the decrypted data. Raises `WrongPassphrase` if the passphrase is wrong or if the data
    was changed; these two cases cannot be distinguished."""
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as in `_cipher`

    head = source.read(len(HEADER) + _SALT_BYTES)
    if len(head) != len(HEADER) + _SALT_BYTES or not head.startswith(HEADER):
        raise WrongPassphrase("the secrets in the backup have an unknown form: they are damaged")
    cipher = _cipher(passphrase, head[len(HEADER) :])
    out = bytearray()
    piece, number = source.read(_CHUNK + _TAG_BYTES), 0
    while True:
        following = source.read(_CHUNK + _TAG_BYTES)
        try:
            out += cipher.decrypt(_nonce(number, last=not following), piece, HEADER)
        except InvalidTag:
            raise WrongPassphrase(
                "the secrets in the backup cannot be decrypted: the passphrase is another one, or "
                "they are damaged"
            ) from None
        if not following:
            return bytes(out)
        piece, number = following, number + 1


def _cipher(passphrase: str, salt: bytes) -> "ChaCha20Poly1305":
    # The import takes 10 ms and 6 MiB of memory. Only backups with secrets need it.
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305  # noqa: PLC0415
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt  # noqa: PLC0415

    key = Scrypt(salt=salt, length=32, n=_SCRYPT_COST, r=8, p=1).derive(passphrase.encode())
    return ChaCha20Poly1305(key)


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([last])
