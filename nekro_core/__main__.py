"""``python -m nekro_core``: the same as ``nekro``."""

import sys

from nekro_core.cli import main

sys.exit(main())
