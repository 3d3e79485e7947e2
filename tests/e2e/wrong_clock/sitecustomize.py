"""Makes `time.time` and `time.time_ns` of a Python process wrong, by the seconds in
``WRONG_CLOCK_S``. Python runs this at its start if this folder is in ``PYTHONPATH``.
`datetime.now` stays right. The monotonic clock stays as it is: on a real machine too, it does not
know the time of day."""

import os
import time

_OFF_S = float(os.environ.get("WRONG_CLOCK_S", "0"))
_right, _right_ns = time.time, time.time_ns
time.time = lambda: _right() + _OFF_S
time.time_ns = lambda: _right_ns() + round(_OFF_S * 1e9)
