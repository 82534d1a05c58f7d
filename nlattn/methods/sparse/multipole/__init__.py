"""Fast multipole attention: near clusters are met key by key, far clusters by their moments.

`method` holds the public function and the method behind it, `layouts` how keys and queries are divided and attention on
one such layout, `state` what is prepared, `trial` how layouts and numbers of near keys are compared on a few rows, and
`policy` all constants.
"""
