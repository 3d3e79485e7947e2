"""For those who write plugins and those who install them: the commands ``nekro plugin ...``."""
