"""What lab 09 shows and grades: Winograd's transforms."""
