"""A kernel file run on inputs, and what comes out compared with what is right."""
