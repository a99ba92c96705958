"""The `bystander` command, one thin file a command group."""
