#pragma once

/// CUDA version of the runtime that answers, 13000 = 13.0. Before CUDA 12 it answers only where there is a driver.
int runtime_version();
/// numbers[i] *= factor for i in [0, count), on the current GPU. Null, or why it failed.
const char* scale(float* numbers, int count, float factor);
