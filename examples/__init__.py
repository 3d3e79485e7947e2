"""Reactive programs that the tests run. See README.md."""
