"""The operator's web site: the login and the guard of every request, the pages, and the HTTP API.
Pages and API call `nekro_core.operator`."""
