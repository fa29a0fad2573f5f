"""Hypotheses and their outputs: what is drawn, what the model answers, who does the work, what is kept of it."""
