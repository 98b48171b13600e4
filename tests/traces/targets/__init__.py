"""The switches that traces run on."""
