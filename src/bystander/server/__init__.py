"""Pages that people use in a browser, served from this machine: see `local_server` for how a page is mounted."""
