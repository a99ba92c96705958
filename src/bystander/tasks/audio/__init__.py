"""Pure functions on mono audio: coding, trimming, levels, loudness, rooms, placement.

Samples are float32 of shape (n,) in [-1, 1] unless said otherwise. Heavy libraries are imported inside the functions
that use them, so that importing this package costs nothing.
"""
