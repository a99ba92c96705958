"""Monophone GMM alignment with Kaldi's own code from the wheel `kaldi_hmm_gmm`: features, phones, models, paths."""
