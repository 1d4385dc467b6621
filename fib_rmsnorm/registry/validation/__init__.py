"""Check a dataset and report every problem; of a record that cannot be read, the first."""
