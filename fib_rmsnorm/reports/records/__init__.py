"""What a registry holds, as lists and one record in full."""
