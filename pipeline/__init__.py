"""From a folder of photographs to checked shards: recipe, plan, workers, manifest, verification."""
