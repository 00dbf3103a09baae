"""What lab 10 shows and grades: networks that read digits."""
