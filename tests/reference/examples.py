"""How many examples hypothesis tries: EXAMPLES=10 in the environment multiplies all numbers."""

import os

MORE = int(os.environ.get("EXAMPLES", "1"))
