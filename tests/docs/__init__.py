"""The documents: pages generated from the code, examples that run, links that lead somewhere."""
