"""Loading, validating and rendering prompt packs."""
