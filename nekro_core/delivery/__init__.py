"""The way in and the way out: nothing lost, nothing twice, in order."""
