"""PTX text to a `PtxFile`: what is written, and what no GPU takes refused by name and line."""
