//! Measures one case and prints its line of the table.
use super::bare::Bare;
use super::buffers::{clear, sets};
use super::clock::{Clock, Time};
use super::compare::compare;
use super::torch::Torch;
use crate::Result;
use crate::cases::agreement::Apart;
use crate::cases::by_name::ByName;
use crate::cases::{Case, Roof};
use candle_rocm_sys::Device;
use serde_json::{Value, json};

/// The tools and settings of the measurements.
pub struct Bench<'a> {
    pub device: &'a Device,
    pub clock: Clock<'a>,
    pub compute_units: u32,
    /// The speed of the device's own copy in bytes per second, reads and writes together.
    pub copy_speed: f64,
    pub bare: Option<Bare<'a>>,
    /// The prefix of the modules of Candle's names to time beside ours.
    pub other: Option<&'static str>,
    pub torch: Option<Torch>,
    /// The total size of the sets of buffers.
    pub beyond: usize,
}

/// The limit of a case; for memory, a speed in bytes per second.
enum Limit {
    Copies(f64),
    Reads(f64),
    Operations(usize),
}

pub struct Row {
    name: String,
    dims: Vec<usize>,
    bytes: usize,
    limit: Limit,
    /// The speed of a kernel that only reads and writes the same amounts, in bytes per second. Only for cases unlike a
    /// copy: those that mostly write, or that read twice as much as they write.
    bare: Option<f64>,
    ours: Time,
    other: Option<(Time, Apart)>,
    torch: Option<f64>,
}

impl Row {
    pub fn measure(bench: &mut Bench<'_>, case: &Case) -> Result<Row> {
        let (device, clock) = (bench.device, &bench.clock);
        let limit = match (case.roof, &bench.bare) {
            (Roof::Operations(count), _) => Limit::Operations(count),
            (Roof::Reads, Some(bare)) => {
                Limit::Reads(bare.reading(clock, case.sources[0].bytes(), bench.compute_units)?)
            }
            _ => Limit::Copies(bench.copy_speed),
        };
        let written = case.numel() * case.dst_dtype.size();
        let read = case.moved - written;
        let bare = bench.bare.as_ref().filter(|_| case.roof == Roof::Copies && read > 0);
        let bare = bare.and_then(|bare| match case.sources.len() {
            1 if written >= 3 * read => Some(bare.spreading(clock, read, written)),
            2 if read == 2 * written => Some(bare.joining(clock, written)),
            _ => None,
        });
        let bare = bare.transpose()?;
        let sets = sets(device, case, bench.beyond)?;
        let prepared = case.prepare()?;
        let ours = clock.time(|i| sets[i % sets.len()].launch(device, &prepared))?;
        let kernels = bench.other.map(|prefix| ByName::new(device, case, prefix)).transpose()?.flatten();
        let other = kernels.map(|kernels| -> Result<(Time, Apart)> {
            let second = device.alloc(case.dst_bytes())?;
            let time = clock.time(|i| {
                let set = &sets[i % sets.len()];
                set.launch_by_name(&kernels, &set.dst)
            })?;
            clear(device, &sets[0].dst)?;
            clear(device, &second)?;
            sets[0].launch(device, &prepared)?;
            sets[0].launch_by_name(&kernels, &second)?;
            Ok((time, compare(device, case, &sets[0].dst, &second)?))
        });
        let other = other.transpose()?;
        let count = sets.len();
        drop(sets);
        let torch = bench.torch.as_mut().filter(|_| !case.torch.is_empty());
        let torch = torch.map(|torch| torch.time(case, count)).transpose()?;
        Ok(Row { name: case.name.clone(), dims: case.dims.clone(), bytes: case.moved, limit, bare, ours, other, torch })
    }

    /// The result of a launch that takes `seconds`: a share of the memory's speed, or operations per second in units of
    /// 10^12.
    fn reached(&self, seconds: f64) -> f64 {
        match self.limit {
            Limit::Copies(speed) | Limit::Reads(speed) => self.bytes as f64 / seconds / speed,
            Limit::Operations(count) => count as f64 / seconds * 1e-12,
        }
    }

    fn unit(&self) -> &'static str {
        match self.limit {
            Limit::Copies(_) => "of copy",
            Limit::Reads(_) => "of reads",
            Limit::Operations(_) => "Top/s",
        }
    }

    /// The launcher's time.
    pub fn time(&self) -> Time {
        self.ours
    }

    /// The number of operations, if arithmetic is the limit.
    pub fn operations(&self) -> Option<usize> {
        match self.limit {
            Limit::Operations(count) => Some(count),
            Limit::Copies(_) | Limit::Reads(_) => None,
        }
    }

    /// The shares of the memory's speed for a chart, ours and the other's; `None` if arithmetic is the limit.
    pub fn bar(&self) -> Option<super::chart::Bar> {
        let theirs = self.other.map(|(time, _)| self.reached(time.median));
        let bar = super::chart::Bar { label: self.name.clone(), ours: self.reached(self.ours.median), theirs };
        (!matches!(self.limit, Limit::Operations(_))).then_some(bar)
    }

    /// The other's time over ours, if memory is the limit.
    pub fn memory_bound_ratio(&self) -> Option<f64> {
        let (time, _) = self.other.filter(|_| !matches!(self.limit, Limit::Operations(_)))?;
        Some(time.median / self.ours.median)
    }

    pub fn is_right(&self) -> bool {
        !matches!(self.other, Some((_, Apart::Wrong(_))))
    }

    pub fn print_head(other: Option<&str>, torch: bool) {
        print!("{:<36} {:>17} {:>10} {:>5} {:>8} {:<8}", "case", "dims", "us", "+-%", "reached", "");
        if let Some(other) = other {
            print!(" {:>12} {:>8} {:>6}", format!("{other}, us"), "reached", "times");
        }
        if torch {
            print!(" {:>10} {:>8} {:>6}", "torch, us", "reached", "times");
        }
        println!("{}", if other.is_some() { "  results" } else { "" });
    }

    pub fn print(&self, other: bool, torch: bool) {
        let dims = self.dims.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
        let ours = self.ours.median;
        let (name, reached, unit) = (&self.name, self.reached(ours), self.unit());
        print!(
            "{name:<36} {dims:>17} {:>10.2} {:>5.1} {reached:>8.3} {unit:<8}",
            ours * 1e6,
            self.ours.spread() * 100.0
        );
        if other {
            match self.other {
                Some((Time { median, .. }, _)) => {
                    print!(" {:>12.2} {:>8.3} {:>6.2}", median * 1e6, self.reached(median), median / ours);
                }
                None => print!(" {:>12} {:>8} {:>6}", "-", "-", "-"),
            }
        }
        if torch {
            match self.torch {
                Some(time) => print!(" {:>10.2} {:>8.3} {:>6.2}", time * 1e6, self.reached(time), time / ours),
                None => print!(" {:>10} {:>8} {:>6}", "-", "-", "-"),
            }
        }
        print!("{}", self.other.map_or(String::new(), |(_, apart)| format!("  {apart}")));
        println!("{}", self.share_of_bare().map_or(String::new(), |share| format!("  {share:.3} of bare moves")));
    }

    fn share_of_bare(&self) -> Option<f64> {
        self.bare.map(|speed| self.bytes as f64 / self.ours.median / speed)
    }

    /// The row as an object; times in microseconds.
    pub fn json(&self) -> Value {
        let ours = self.ours;
        let mut row = json!({
            "op": self.name,
            "dims": self.dims,
            "bytes": self.bytes,
            "us": ours.median * 1e6,
            "us_p10": ours.low * 1e6,
            "us_p90": ours.high * 1e6,
            "reached": self.reached(ours.median),
            "unit": self.unit(),
        });
        let mut side = |name: &str, seconds: f64| {
            row[format!("{name}_us")] = json!(seconds * 1e6);
            row[format!("{name}_reached")] = json!(self.reached(seconds));
            row[format!("{name}_times")] = json!(seconds / ours.median);
        };
        if let Some((time, _)) = self.other {
            side("other", time.median);
        }
        if let Some(time) = self.torch {
            side("torch", time);
        }
        if let Some((_, apart)) = self.other {
            row["results"] = json!(apart.to_string());
        }
        if let Some(share) = self.share_of_bare() {
            row["of_bare_moves"] = json!(share);
        }
        row
    }
}
