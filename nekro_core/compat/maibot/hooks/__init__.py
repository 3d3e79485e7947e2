"""What plugins may change on the way of a message: inbound, commands, the model, outbound."""
