"""Normalizations over rows: RMSNorm and LayerNorm, and what is fused with them."""
