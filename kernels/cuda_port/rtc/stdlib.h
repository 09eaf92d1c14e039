/* <stdlib.h> for a compiler at run time: kernels call nothing of it that HIP lacks. */
