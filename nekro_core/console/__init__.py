"""The operator's pages and the HTTP API for operators. Both call `nekro_core.operator`."""
