"""From one draw to all: what a verb asks, evaluated for each draw of the hyperparameters."""
