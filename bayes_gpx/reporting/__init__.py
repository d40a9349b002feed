"""Reports: one HTML file that says what the verbs say."""
