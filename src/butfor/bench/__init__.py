"""Figures that anyone can measure again: the paper's Table 1, and what butfor itself costs."""
