"""Filters of system calls, and child processes that they confine."""
