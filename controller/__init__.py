"""The static controller: topology in, tables out; it installs once, verifies, and exits."""
