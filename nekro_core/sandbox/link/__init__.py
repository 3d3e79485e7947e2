"""The host's part of the connection to a box: frames, runs, calls, streams."""
