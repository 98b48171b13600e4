"""What becomes of each section of a scenario file: from its schema to the model."""
