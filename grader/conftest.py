"""`python -m pytest grader` runs every grader file against the references; see `warpschool.grading.plugin`."""

pytest_plugins = ("warpschool.grading.plugin",)
