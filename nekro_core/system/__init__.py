"""Holds helpers that every room may use: for files, tasks, addresses and child processes."""
