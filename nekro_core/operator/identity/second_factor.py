"""The second factor of a login: codes of an authenticator program (TOTP, RFC 6238), each of which
works once, and recovery codes."""

import hashlib
import hmac
import io
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

from nekro_core.operator.identity.errors import UnknownPerson, WrongCode
from nekro_core.store.console_people import ConsolePeopleRepository, ConsolePerson

STEP_S = 30
"""Seconds for which an authenticator shows one code."""
STEPS_AROUND = 1
"""The codes of this many steps of `STEP_S` before and after the present step are accepted too,
because clocks differ."""
RECOVERY_CODES = 10
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"
_CODE_LETTERS = 16
"""Number of letters of a recovery code. They have 79 random bits, so even somebody with a stolen
hash cannot guess the code."""
_LONGEST_CODE = 64
"""Number of characters of an entered code that are read; further characters are ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrolment:
    """What a person needs to set up an authenticator program.

    Attributes:
        secret: The secret, to be typed in.
        uri: The secret as an ``otpauth://`` address.
        svg: The address as a QR code, a whole SVG element.
    """

    secret: str = field(repr=False)
    uri: str = field(repr=False)
    svg: str = field(repr=False)


class SecondFactor:
    """Enrols, checks and removes the second factor of people."""

    def __init__(
        self,
        people: ConsolePeopleRepository,
        *,
        clock: Callable[[], float],
        issuer: str = "nekro-core",
    ) -> None:
        self._people = people
        self._clock = clock
        self._issuer = issuer

    async def begin(self, person: ConsolePerson) -> Enrolment:
        """Make a new secret. It is used only after `confirm`; until then an earlier secret stays in
        use."""
        import pyotp  # noqa: PLC0415 - few people have a second factor
        import segno  # noqa: PLC0415 - few people have a second factor

        secret = pyotp.random_base32()
        if not await self._people.begin_second_factor(person.person_id, secret):
            raise UnknownPerson(f"there is no person {person.name!r} any more")
        uri = pyotp.TOTP(secret).provisioning_uri(name=person.name, issuer_name=self._issuer)
        drawn = io.BytesIO()
        segno.make(uri, error="m").save(
            drawn, kind="svg", scale=5, border=2, xmldecl=False, light="#fff", svgclass=None
        )
        return Enrolment(secret=secret, uri=uri, svg=drawn.getvalue().decode())

    async def confirm(self, person: ConsolePerson, code: str) -> tuple[str, ...]:
        """Begin to use the new secret, and return the recovery codes, which are shown only once.

        Raises `WrongCode` if the code was not made with the secret of `begin`.
        """
        current = await self._people.one(person.person_id)
        step = self._step_of(current.totp_pending, code) if current else 0
        if current is None or not step:
            raise WrongCode(
                "the code is not right: enter the one that the authenticator shows now, and check "
                "the clock of the telephone"
            )
        codes = tuple(_new_code() for _ in range(RECOVERY_CODES))
        if not await self._people.confirm_second_factor(
            current.person_id, current.totp_pending, step, [*map(_code_hash, codes)]
        ):
            raise WrongCode("another second factor was begun meanwhile: begin again")
        return codes

    async def accepts(self, person: ConsolePerson, code: str) -> bool:
        """Return whether a code of the authenticator program, or a recovery code, is right, and use
        it up. For a person without a second factor, every code is wrong."""
        if not person.totp_secret:
            return False
        step = self._step_of(person.totp_secret, code)
        if step:
            return await self._people.use_step(person.person_id, step)
        letters = _letters(code)
        if len(letters) != _CODE_LETTERS:
            return False
        return await self._people.use_recovery_code(person.person_id, _code_hash(letters))

    async def remove(self, person: ConsolePerson) -> None:
        """Remove the second factor and the recovery codes."""
        await self._people.remove_second_factor(person.person_id)

    async def codes_left(self, person: ConsolePerson) -> int:
        """Return how many recovery codes a person has left."""
        return await self._people.recovery_codes(person.person_id)

    def _step_of(self, secret: str, code: str) -> int:
        """Return the time step to which this code belongs; 0 if it belongs to no step near the
        present."""
        digits = code[:_LONGEST_CODE].replace(" ", "")
        if not secret or not (digits.isascii() and digits.isdecimal()):
            return 0
        import pyotp  # noqa: PLC0415 - few people have a second factor

        generator, now = pyotp.TOTP(secret), int(self._clock()) // STEP_S
        found = 0
        for step in range(now - STEPS_AROUND, now + STEPS_AROUND + 1):
            if hmac.compare_digest(generator.generate_otp(step), digits):
                found = step
        return found


def _new_code() -> str:
    letters = "".join(secrets.choice(_LETTERS) for _ in range(_CODE_LETTERS))
    return "-".join(letters[at : at + 4] for at in range(0, _CODE_LETTERS, 4))


def _letters(code: str) -> str:
    return "".join(code[:_LONGEST_CODE].replace("-", "").split()).lower()


def _code_hash(code: str) -> str:
    return hashlib.sha256(_letters(code).encode("utf-8", "replace")).hexdigest()
