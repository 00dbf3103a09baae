"""The clock: machine code and the paths that a launch takes through it -> how long a GPU would need, and why."""
