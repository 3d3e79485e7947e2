"""Builds a gateway or a worker, the two kinds of processes of a cluster."""
