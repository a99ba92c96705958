"""Scores of VoiceBench's parts, one kind of score a file."""
