"""Spreads the chats of one bot over several processes: gateways hold the accounts, workers run the
sessions. NATS JetStream carries what they say to each other and says who owns which chats. In one
process, asyncio serves the same protocols."""
