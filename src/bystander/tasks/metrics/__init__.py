"""Pure functions that measure: word error rate, overlap, similarity."""
