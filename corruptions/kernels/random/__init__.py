"""Random numbers, and noise that is made of them."""
