"""The worker: it builds, calls and times a solution in the process of untrusted code, and checks for tampering."""
