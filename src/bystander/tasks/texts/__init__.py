"""What texts say, told by rules that stages and engines share. English; pure functions of strings."""
