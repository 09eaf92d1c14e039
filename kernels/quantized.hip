#include "common/instance.h"

CRK_MODULE(quantized)
