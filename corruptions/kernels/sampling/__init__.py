"""Images sampled at other positions: resized, zoomed, moved, distorted."""
