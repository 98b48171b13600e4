"""The MRC endpoint: a protocol core without sockets or a clock of its own, and thin drivers."""
