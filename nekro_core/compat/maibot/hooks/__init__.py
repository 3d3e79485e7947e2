"""The points at which plugins may change a message: inbound, commands, the model, outbound."""
