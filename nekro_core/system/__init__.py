"""What every room may use and no room owns: files, tasks, addresses, child processes."""
