#include "common/instance.h"

CRK_MODULE(conv)
