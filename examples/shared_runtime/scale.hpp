#pragma once

/// numbers[i] *= factor for i in [0, count), on the current GPU. CUDA error, 0 = success.
int scale(float* numbers, int count, float factor);
