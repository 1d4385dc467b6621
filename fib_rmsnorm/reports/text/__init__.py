"""The text kit: consoles, documents, tables, numbers and names as people read them."""
