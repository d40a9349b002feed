"""Parts of a frame, for models of rows that are read in parts."""


class Frames:
    """Parts of a frame that are made anew, one of them a single row, and how often they were."""

    def __init__(self, frame):
        self.parts, self.passes = [frame[:20], frame[20:21], frame[21:]], 0

    def __iter__(self):
        self.passes += 1
        return iter(self.parts)
