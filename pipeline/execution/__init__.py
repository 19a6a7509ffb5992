"""Work items and the workers that process them."""
