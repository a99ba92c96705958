"""Row models, Arrow schemas, configs, engine and stage contracts, errors. Imports nothing else of ours."""
