"""What the bot remembers: tables, migrations and the questions asked of them."""
