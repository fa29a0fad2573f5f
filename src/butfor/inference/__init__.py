"""The statistics: arrays in, arrays out; one method, one file, with its equations.

"METHODS n" is section n of docs/methods.md; words are explained in docs/glossary.md. Read statistics, irt, sequential
and exact for the p-value; selection and adaptive for the choice; decisions, effects, features and holdout for the rest.
"""
