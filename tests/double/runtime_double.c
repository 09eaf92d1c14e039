/* The least that the HIP driver takes for a runtime. tests/library.rs tells several of them apart by the number of
 * their devices, COUNT. The calls that do nothing come from the driver's lists, as CALLS(XX). */
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
