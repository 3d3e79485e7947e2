"""The addresses at which OneBot implementations connect to the bot."""

WEBSOCKET_PATH = "/onebot/v11/ws"
PATHS = ("/onebot/v11/", WEBSOCKET_PATH, f"{WEBSOCKET_PATH}/")
