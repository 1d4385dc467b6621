"""Old Traces beside new ones: whether they differ by more than noise, and whether a gate lets that pass."""
