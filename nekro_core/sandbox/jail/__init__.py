"""Boxes made with bubblewrap: namespaces, a user id of their own, a filter of system calls."""
