__global__ void nothing() {}
void launch() { nothing<<<1, 1>>>(); }
