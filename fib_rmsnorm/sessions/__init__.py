"""Judge and time kernels with everything kept warm: version after version of one, or those of many clients at once."""
