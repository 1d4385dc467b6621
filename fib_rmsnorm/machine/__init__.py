"""What this machine is: devices, GPU models, clocks, tools, libraries, and what each language can do here."""
