"""What the distortions of LAION-C share: their group, and the values of levels."""

from __future__ import annotations

import numpy as np

GROUP = "laion-c"
"""Group of these distortions."""

VALUES = np.arange(256, dtype=np.float32) / np.float32(255)
"""Value 0..1 of each level, float32 (256,), as the published script holds pixels."""
