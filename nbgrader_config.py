"""The configuration of a checkout that is used as a class: labs/ are nbgrader's source."""

from warpschool.classroom.config import configure

c = get_config()  # noqa: F821 (nbgrader provides it)
configure(c, __file__, source="labs")
c.CourseDirectory.course_id = "warpschool"
