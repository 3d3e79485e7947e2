"""Serves plugins' pages, for which one must log in to the operator's page, and plugins'
webhooks."""
