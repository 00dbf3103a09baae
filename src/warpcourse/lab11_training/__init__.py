"""What lab 11 shows and grades: training."""
