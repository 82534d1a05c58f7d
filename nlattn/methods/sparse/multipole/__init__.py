"""Fast multipole attention: near clusters of keys one by one, far clusters by their moments.

`method` holds the function and its method; `layouts` how keys and queries are divided, and attention on one such
layout; `state` what is prepared; `trial` on what layouts and numbers of near keys are compared; `policy` all constants.
"""
