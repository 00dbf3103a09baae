"""What lab 12 shows and grades: convolutions of one image."""
