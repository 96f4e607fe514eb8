"""Words and checks that every other package shares: no torch models, and no files but those of run folders."""
