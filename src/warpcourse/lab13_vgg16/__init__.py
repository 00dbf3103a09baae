"""What lab 13 shows and grades: VGG16."""
