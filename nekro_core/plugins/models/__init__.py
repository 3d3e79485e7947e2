"""Language models for plugins, in the form that existing plugins know. `endpoints` is what the bot
holds; `asking` and `messages` are loaded when a plugin asks for them."""
