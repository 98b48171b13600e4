"""How every command of ours begins and ends, whatever it does in between.

launch   stdlib only: Ctrl-C while the modules of a command are imported
program  a click command as a process: exit codes, errors of one line, what happens to stdout
"""
