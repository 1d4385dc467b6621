"""Normalizations over rows: RMSNorm and LayerNorm, what is fused with them, and their backward passes."""
