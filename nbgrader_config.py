"""nbgrader's configuration of a checkout used as a class: labs/ are the source. `warpschool quickstart` makes another."""

from warpschool.classroom.config import configure

c = get_config()  # noqa: F821 (nbgrader provides it)
configure(c, __file__, source="labs")
c.CourseDirectory.course_id = "warpschool"
