"""A class on nbgrader: releasing labs, grading hand-ins into its gradebook, feedback, late policy, exports.

    course/
      nbgrader_config.py   names our preprocessors (`warpschool.classroom.config`)
      grading.toml         cases, late policy, reports
      source/ release/ submitted/ autograded/ feedback/ gradebook.db     nbgrader's own
      grading/             records of what was graded, and results that are never computed twice

Everything here needs nbgrader (`pip install 'warpschool[teach]'`); what is graded, and how, is `warpschool.grading`.
"""
