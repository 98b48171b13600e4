"""Virtual time: a fabric of compiled P4 switches and MRC endpoints on one clock, in one process."""
