"""Builds filters of system calls, and confines child processes."""
