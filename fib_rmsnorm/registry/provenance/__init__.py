"""Where Traces come from: the seal of a user and machine, and signatures."""
