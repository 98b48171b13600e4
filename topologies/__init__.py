"""Topology model, addressing plan and topology files of an MRC fabric."""
