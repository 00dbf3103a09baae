"""What lab 07 shows: who holds which element, how fast each mapping is."""
