"""The perspective map through four points, solved as OpenCV does."""

import numpy as np

from corruptions.kernels import inlined, kernel

SINGULAR = 100.0 * 2.0**-52
"""OpenCV regards a system with a smaller pivot as unsolvable, and takes zeros as its solution."""


@inlined
def solve(matrix, values):
    """Replace the values (N,) by the solution of a linear system (N, N), by elimination with partial pivoting."""
    size = values.size
    for i in range(size):
        pivot = i
        for j in range(i + 1, size):
            if abs(matrix[j, i]) > abs(matrix[pivot, i]):
                pivot = j
        if abs(matrix[pivot, i]) < SINGULAR:
            values[:] = 0.0
            return
        values[i], values[pivot] = values[pivot], values[i]
        for k in range(i, size):
            matrix[i, k], matrix[pivot, k] = matrix[pivot, k], matrix[i, k]
        factor = -1.0 / matrix[i, i]
        for j in range(i + 1, size):
            share = matrix[j, i] * factor
            for k in range(i + 1, size):
                matrix[j, k] += share * matrix[i, k]
            values[j] += share * values[i]
    for i in range(size - 1, -1, -1):
        for k in range(i + 1, size):
            values[i] -= matrix[i, k] * values[k]
        values[i] /= matrix[i, i]


@kernel
def inverse_perspective(points, corners):
    """Return the (3, 3) map that takes ``corners`` back to ``points``, float64. It is zero if there is none.

    Both are float32 (4, 2), (x, y). OpenCV multiplies their coordinates in float32.
    """
    matrix, values = np.zeros((8, 8)), np.empty(8)
    for i in range(4):
        for axis in range(2):
            row, target = matrix[4 * axis + i], corners[i, axis]
            row[3 * axis], row[3 * axis + 1], row[3 * axis + 2] = points[i, 0], points[i, 1], 1.0
            row[6], row[7] = -(points[i, 0] * target), -(points[i, 1] * target)
            values[4 * axis + i] = target
    solve(matrix, values)
    m = np.ones(9)
    m[:8] = values
    cofactors = np.empty((3, 3))
    cofactors[0] = m[4] * m[8] - m[5] * m[7], m[2] * m[7] - m[1] * m[8], m[1] * m[5] - m[2] * m[4]
    cofactors[1] = m[5] * m[6] - m[3] * m[8], m[0] * m[8] - m[2] * m[6], m[2] * m[3] - m[0] * m[5]
    cofactors[2] = m[3] * m[7] - m[4] * m[6], m[1] * m[6] - m[0] * m[7], m[0] * m[4] - m[1] * m[3]
    determinant = m[0] * cofactors[0, 0] + m[1] * cofactors[1, 0] + m[2] * cofactors[2, 0]
    return cofactors * (1.0 / determinant if determinant != 0.0 else 0.0)
