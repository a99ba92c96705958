"""HTML that people look at."""
