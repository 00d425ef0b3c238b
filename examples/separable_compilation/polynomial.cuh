#pragma once

/// 2x^2 + 3x + 5, defined in another file: resolved when device code is linked.
__device__ float polynomial(float x);
