"""What texts say, told by rules that stages and engines share: pure functions of strings.

English, except where a module says otherwise.
"""
