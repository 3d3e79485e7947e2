"""Language models for plugins: endpoints, embedding vectors, and the counting of requests. The
functions that plugins call are in `nekro_core.api.llm`."""
