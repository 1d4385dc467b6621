"""Judge and time version after version of one kernel with everything kept warm, in the library or behind a socket."""
