"""What belongs to lab 16: attention in float64, and the pictures of its notebook."""
