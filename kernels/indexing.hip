#include "common/instance.h"

CRK_MODULE(indexing)
