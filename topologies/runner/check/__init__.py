"""The path check: MRC-shaped writes over every path, and bursts into slowed ports.

`frames` builds packets and knows what they look like on arrival, `exchange` sends and takes in
with a bounded number in flight, `paths` and `burst` say what is sent, `counters` balances the
switches' books.
"""
