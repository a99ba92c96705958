"""Transcripts of two-party recordings, one parser a format."""
