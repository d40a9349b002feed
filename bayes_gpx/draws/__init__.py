"""From one draw to all: explanations evaluated for each draw of the hyperparameters."""
