"""Keep the files of a registry safe: which of them may be opened, and who may read or write at a time."""
