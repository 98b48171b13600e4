"""What frames come from and go to: Linux interfaces, calls in the same process, captures."""
