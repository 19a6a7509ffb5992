"""Make the shards of a data set."""
