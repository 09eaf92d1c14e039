/* The smallest library that the HIP driver accepts as a runtime. tests/library.rs tells several of them apart by their
 * number of devices, COUNT. CALLS(XX) lists the calls that do nothing; the list comes from the driver. */
#define XX(name) \
  int name(void); \
  int name(void) { return 0; }
CALLS(XX)
#undef XX

int hipGetDeviceCount(int *count);
int hipGetDeviceCount(int *count) {
  *count = COUNT;
  return 0;
}
