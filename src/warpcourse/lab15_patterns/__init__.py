"""Lab 15: cases of its graders, and pictures of its notebook."""
