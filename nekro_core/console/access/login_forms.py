"""Receives the forms of logins within limits, because everybody may send them."""

from collections import deque
from urllib.parse import parse_qs

import anyio
from fastapi import Request

from nekro_core.system.errors import NekroError

MAX_FORM_BYTES = 4096
"""Maximum number of bytes of a login form."""
FORM_S = 10.0
"""Time limit for receiving the form, in seconds. A slower client would use a connection that other
clients need."""
MOST_FORMS = 32
"""Maximum number of forms that are being received at once. If there are more, the oldest is
refused. A browser sends the form in one piece."""


class LoginFormRefused(NekroError):
    """A form is too large or too slow, or was the oldest of too many. ``status`` is the HTTP status
    of the answer."""

    def __init__(self, status: int) -> None:
        super().__init__(str(status))
        self.status = status


class LoginForms:
    """Receives the forms of logins, within limits of size, time and number."""

    def __init__(self) -> None:
        self._coming: deque[anyio.CancelScope] = deque()

    async def read(self, request: Request) -> dict[str, str]:
        """Return the fields of a form. Raises `LoginFormRefused`."""
        body = b""
        with anyio.move_on_after(FORM_S) as patience:
            self._coming.append(patience)
            for oldest in [*self._coming][:-MOST_FORMS]:
                oldest.cancel()
            try:
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > MAX_FORM_BYTES:
                        raise LoginFormRefused(413)
            finally:
                self._coming.remove(patience)
        if patience.cancelled_caught:
            raise LoginFormRefused(408)
        try:
            fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=10)
        except ValueError:
            raise LoginFormRefused(413) from None
        return {name: values[0] for name, values in fields.items()}
