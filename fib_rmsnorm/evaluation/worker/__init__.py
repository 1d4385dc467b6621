"""All that runs in the process of untrusted code: build, call, time, and check for tampering."""
