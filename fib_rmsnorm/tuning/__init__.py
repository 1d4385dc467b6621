"""How to launch, by shape: try what a Solution declares tunable, and write the table that it reads."""
