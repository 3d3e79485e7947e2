"""Language models with the names of nekro-agent: model groups, messages and request functions."""
