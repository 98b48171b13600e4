"""What a run shows: a record of plain data, and pages made of it."""
