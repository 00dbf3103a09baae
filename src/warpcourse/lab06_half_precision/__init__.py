"""What lab 06 shows: what a precision costs."""
