"""Chat commands, typed as ``/name arguments``: finds the command, reads its arguments, runs it."""
