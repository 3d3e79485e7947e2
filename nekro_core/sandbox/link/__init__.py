"""The connection between the main process and a box: frames, runs, calls, streams."""
