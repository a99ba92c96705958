"""Readers of corpora in which several people talk: AMI, Friends-MMC, MELD and EmoryNLP, lhotse, any transcripts."""
