"""What lab 08 shows: one convolution in many ways."""
