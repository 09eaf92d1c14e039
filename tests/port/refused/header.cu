// Matrix instructions have no port.
#include <mma.h> // error: file not found
extern "C" __global__ void nothing() {}
