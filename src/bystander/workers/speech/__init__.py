"""A worker that speaks, as a program of its own: see `protocol` for what it says to whom.

It runs in an environment that has no other part of bystander: Python 3.11 or newer, numpy, and for Chatterbox
`chatterbox-tts` with what that needs. Copy this folder anywhere and run `python speech --help`.
"""
