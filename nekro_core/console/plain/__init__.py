"""Serves the operator's pages without scripts, and the routes of the HTTP API that go with them."""
