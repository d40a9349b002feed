"""A progress display that knows when to be silent."""

import threading

from rich.console import Console
from rich.progress import Progress


def progress_bar(wanted: bool) -> Progress:
    """Progress display on a terminal or in a notebook; silent where output goes to a file.

    Silent in all threads but the main one too, as a terminal has one display at a time.
    """
    console = Console(stderr=True)
    alone = threading.current_thread() is threading.main_thread()
    visible = wanted and alone and (console.is_terminal or console.is_jupyter)
    return Progress(console=console, disable=not visible, transient=True)
