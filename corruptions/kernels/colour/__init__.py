"""New colours and levels of single pixels."""
