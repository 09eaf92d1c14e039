/* The phases of transposed convolutions (crk_phases_t), for conv_cores.c. */
#include "launch/convolution.h"

/* A convolution along one dim. */
typedef struct dim {
  uint64_t size, window, stride, padding, dilation; /* `size` of dst */
} dim_t;

/* A dilation does nothing in a window of one element. */
static uint64_t dilation_of(const crk_conv_t *s) { return s->h_k * s->w_k == 1 ? 1 : s->dilation; }

/* A stride does nothing where one output without padding is all there is, such as the row of a signal. */
static dim_t describe(const crk_conv_t *s, uint64_t size, uint64_t window, uint64_t padding) {
  return (dim_t){size, window, size == 1 && padding == 0 ? 1 : s->stride, padding, dilation_of(s)};
}
static dim_t describe_down(const crk_conv_t *s) { return describe(s, s->h_out, s->h_k, s->h_padding); }
static dim_t describe_across(const crk_conv_t *s) { return describe(s, s->w_out, s->w_k, s->w_padding); }

static uint64_t greatest_common(uint64_t a, uint64_t b) {
  while (b != 0) {
    const uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static bool fits(const dim_t *d) {
  const uint64_t limit = INT32_MAX / 2;
  return d->size <= limit && d->padding <= limit / 2 && d->size + 2 * d->padding <= limit &&
         d->window <= limit / d->dilation && d->stride <= d->size && d->stride <= limit / (d->dilation + 2);
}

bool crk_priv_phases_fit(const crk_conv_t *shape) {
  const dim_t down = describe_down(shape), across = describe_across(shape);
  return fits(&down) && fits(&across);
}

uint64_t crk_priv_phases_farthest(const crk_conv_t *shape, bool is_across) {
  const dim_t d = is_across ? describe_across(shape) : describe_down(shape);
  const uint64_t g = greatest_common(d.stride, d.dilation);
  const uint64_t reach = (crk_priv_ceil_div(d.window, d.stride / g) - 1) * (d.dilation / g);
  const uint64_t before = (is_across ? shape->w_in : shape->h_in) + reach + d.dilation + 1;
  const uint64_t behind = crk_priv_ceil_div(d.size, d.stride) + crk_priv_ceil_div(d.padding, d.stride);
  return before > behind ? before : behind;
}

static void init(crk_phases_t *phases, const dim_t *d) {
  const uint64_t apart = d->stride / greatest_common(d->stride, d->dilation);
  const uint64_t skipped = crk_priv_ceil_div(d->padding, d->stride);
  *phases = (crk_phases_t){.window = (uint32_t)d->window,
                           .taps = (uint32_t)(d->window / apart),
                           .longer = (uint32_t)(d->window % apart),
                           .dilation = (uint32_t)d->dilation,
                           .skipped = (uint32_t)skipped,
                           .beyond = (uint32_t)(skipped * d->stride - d->padding),
                           .size = (uint32_t)d->size};
  crk_priv_divisor_init(&phases->stride, d->stride, false);
  crk_priv_divisor_init(&phases->apart, apart, false);
}

void crk_priv_phases_init(crk_conv_phases_t *call, const crk_conv_t *shape) {
  const dim_t down = describe_down(shape), across = describe_across(shape);
  const uint64_t dilation = dilation_of(shape);
  call->most.windows.stride = 1;
  call->most.windows.dilation = (uint32_t)(dilation / greatest_common(shape->stride, dilation));
  init(&call->down, &down);
  init(&call->across, &across);
  crk_priv_divisor_init(&call->fewer_columns, call->across.taps == 0 ? 1 : call->across.taps, false);
  crk_priv_divisor_init(&call->phases, down.stride * across.stride, true);
  call->first_block = 0;
}
