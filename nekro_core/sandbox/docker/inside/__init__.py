"""Small programs that run in containers. The host sends their source; any Python from 3.9 on can
run them."""
