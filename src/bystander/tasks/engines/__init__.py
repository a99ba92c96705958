"""Adapters to text, speech, recognition and speaker models; each kind has a deterministic fake beside it."""
