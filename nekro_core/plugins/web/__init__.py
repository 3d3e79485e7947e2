"""Serves plugins' pages, which need the login of the operator's page, and plugins' webhooks."""
