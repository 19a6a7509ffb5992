"""Work items, and the workers that do them."""
