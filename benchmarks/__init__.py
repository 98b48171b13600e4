"""Measurements. None of them is a test: they print ratios of things measured in one run."""
