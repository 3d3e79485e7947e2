"""What plugins answer over HTTP: pages behind the login, and webhooks."""
