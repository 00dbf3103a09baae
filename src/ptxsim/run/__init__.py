"""A launch: host threads, blocks, memory limits, hazards told, faults raised."""
