"""Boxes made with bubblewrap: each has separate namespaces, a separate user id and a system call
filter."""
