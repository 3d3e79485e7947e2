"""Reactive programs, run in the tests. See README.md."""
