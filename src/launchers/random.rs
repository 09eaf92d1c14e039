//! Random numbers. The contracts are in `include/candle_rocm/launchers/random.h`.
use crate::{Buffer, DType, Device, Result, sys};

impl Device {
    /// The state of a new generator of random numbers, for [`Device::random_uniform`] and [`Device::random_normal`].
    pub fn random_state(&self, seed: u64) -> Result<Buffer> {
        let state = self.alloc(sys::CRK_RANDOM_STATE_BYTES as usize)?;
        self.random_seed(&state, seed)?;
        Ok(state)
    }

    /// Begins a generator anew: `crk_random_seed`.
    pub fn random_seed(&self, state: &Buffer, seed: u64) -> Result<()> {
        launch!(self.crk_random_seed(state, seed))
    }

    /// Fills `dst` with `numel` uniform numbers from `lo` to below `hi`: `crk_random_uniform`.
    pub fn random_uniform(
        &self,
        dtype: DType,
        dst: &Buffer,
        numel: usize,
        lo: f64,
        hi: f64,
        state: &Buffer,
    ) -> Result<()> {
        launch!(self.crk_random_uniform(dtype, dst, numel, lo, hi, state))
    }

    /// Fills `dst` with `numel` normal numbers: `crk_random_normal`.
    pub fn random_normal(
        &self,
        dtype: DType,
        dst: &Buffer,
        numel: usize,
        mean: f64,
        std: f64,
        state: &Buffer,
    ) -> Result<()> {
        launch!(self.crk_random_normal(dtype, dst, numel, mean, std, state))
    }
}
