"""A process that waits, with everything loaded that a check needs, and runs checks in forks of itself.

    place      where its socket is: a folder that only this user may enter, a name that says what is loaded
    client     asks: hands over open files, environment and limits, and waits for how it ended
    server     answers: forks, and watches its forks and who asked for them

Loading takes most of a check's processor time, and a fork inherits what is loaded. Nothing depends on this process:
where there is none, or anything about it fails, whoever asks does the work itself. It never grades what others hand in.
"""
