"""Parquet parts and shards, manifests, caches, the model store and exports."""
