"""Files of Traces: which there are, how one is read, and what its Traces are chosen by."""
