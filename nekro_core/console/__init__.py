"""Serves the operator's web site: the login, the check of every request, the pages, and the HTTP
API. The pages and the API call `nekro_core.operator`."""
