"""Pure functions that measure: word error rate, speaker similarity, response scores, significance, agreement."""
