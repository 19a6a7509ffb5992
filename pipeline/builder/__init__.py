"""Building of data sets as shards."""
