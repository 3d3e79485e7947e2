"""Background tasks of plugins, which continue after the call that started them."""
