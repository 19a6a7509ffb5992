"""Speed, measured against other people's packages in the same run, on one thread; never part of the product."""
