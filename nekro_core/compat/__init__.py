"""The names that plugins of other bots import, and the code behind them."""
