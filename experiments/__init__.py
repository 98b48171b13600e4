"""Experiments on the fabric in virtual time: what a claim says, and what was measured."""
