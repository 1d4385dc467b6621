"""Files of Traces: which there are, and how one is read.

Of a large file, what chooses among its Traces is kept as columns beside the user's builds. The columns only choose:
whatever is shown is decoded from the file itself.
"""
