"""PTX text to a `Module`: what is written, and what no GPU takes refused by name and line."""
