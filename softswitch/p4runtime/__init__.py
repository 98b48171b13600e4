"""P4Runtime 1.4 server for the software switch.

`server.P4RuntimeServer` is what the rest of the switch uses; everything else in this package is
reached through it. Section names in the docstrings are those of the P4Runtime specification,
version 1.4.1.
"""
