//! Small work: a chain of short launches, as in a model's decode step, as one graph. It is compared with the times of
//! its kernels.
use candle_rocm::Result;
use candle_rocm::cases::{self, Case, Prepared, Size};
use candle_rocm::measure::buffers::{Set, clear, sets};
use candle_rocm::measure::{Clock, Time, check};
use candle_rocm_sys::{Device, Graph, sys};

/// A case of the table, and its number of elements.
type Call = (&'static str, usize);

const FIRST: Call = ("index_select of rows of 4096, f16", 1 << 12);
/// Roughly the calls of one decoder layer for one token. There are three layers.
const LAYER: [Call; 16] = [
    ("rms norm of rows of 4096, f16", 1 << 12),
    ("mat-vec q4_0", 1 << 22),
    ("rope f16", 1 << 12),
    ("rope f16", 1 << 12),
    ("copy f16 4-D, dims 1 and 2 swapped", 1 << 14),
    ("copy2d f16", 1 << 14),
    ("affine f16", 1 << 15),
    ("add f16, row broadcast", 1 << 15),
    ("softmax of rows of 1024, f16", 1 << 15),
    ("cast f16 f32", 1 << 12),
    ("mat-vec q8_0", 1 << 22),
    ("add f16", 1 << 12),
    ("layer norm of rows of 4096, f16", 1 << 12),
    ("mat-vec q4_K", 1 << 22),
    ("silu f16", 1 << 14),
    ("where u8 f16", 1 << 16),
];
const LAST: Call = ("argmax of rows of 4096, f32", 1 << 15);

/// The goal: the time of a replay over the sum of its kernels' times.
const GOAL: f64 = 1.3;

/// A case that is launched again and again with the same memory.
struct Step<'a> {
    prepared: Prepared<'a>,
    set: &'a Set,
}

impl Step<'_> {
    fn launch(&self, device: &Device) -> Result<()> {
        self.set.launch(device, &self.prepared)
    }
}

/// Records the launches of `steps` in order.
fn capture<'a>(device: &Device, steps: impl IntoIterator<Item = &'a Step<'a>>) -> Result<Graph> {
    let (graph, done) = device.capture(|| -> std::result::Result<_, candle_rocm_sys::Error> {
        Ok(steps.into_iter().try_for_each(|step| step.launch(device)))
    })?;
    done.map(|()| graph)
}

fn replayed(clock: &Clock<'_>, graph: &Graph) -> Result<Time> {
    // SAFETY: the steps' memory outlives the measurement.
    clock.time(|_| Ok(unsafe { graph.launch() }?))
}

fn results(device: &Device, sets: &[Vec<Set>]) -> Result<Vec<Vec<u8>>> {
    let read = |set: &Set| -> Result<Vec<u8>> {
        let mut host = vec![0; set.dst.bytes()];
        // SAFETY: it copies a whole live buffer to equally many bytes.
        unsafe {
            check(sys::crk_copy_to_host(
                device.raw(),
                host.as_mut_ptr().cast(),
                set.dst.raw_view().into(),
                host.len(),
            ))?;
        }
        Ok(host)
    };
    sets.iter().map(|sets| read(&sets[0])).collect()
}

/// Prints the table. Returns whether the replay gave the same bits as single launches, within [`GOAL`].
pub fn run(device: &Device, clock: &Clock<'_>) -> Result<bool> {
    let mut calls = vec![FIRST];
    (0..3).for_each(|_| calls.extend(LAYER));
    calls.push(LAST);
    let chosen: Vec<Case> = calls
        .iter()
        .map(|(name, elements)| {
            let all = cases::all(Size { elements: *elements, odd: false });
            all.into_iter().find(|case| case.name == *name).ok_or_else(|| format!("{name} is no case").into())
        })
        .collect::<Result<_>>()?;
    let memory = chosen.iter().map(|case| sets(device, case, 1)).collect::<Result<Vec<_>>>()?;
    let steps = chosen
        .iter()
        .zip(&memory)
        .map(|(case, sets)| Ok(Step { prepared: case.prepare()?, set: &sets[0] }))
        .collect::<Result<Vec<_>>>()?;

    let launch_all = || steps.iter().try_for_each(|step| step.launch(device));
    launch_all()?;
    let one_by_one = results(device, &memory)?;
    memory.iter().try_for_each(|sets| clear(device, &sets[0].dst))?;
    let graph = capture(device, &steps)?;
    // SAFETY: the steps' memory is live.
    unsafe { graph.launch()? };
    let same = results(device, &memory)? == one_by_one;

    println!("{:<38} {:>14} {:>10} {:>10}", "call", "elements", "alone, us", "launched");
    let mut alone = Vec::with_capacity(steps.len());
    for (i, step) in steps.iter().enumerate() {
        let earlier = calls.iter().take(i).position(|call| *call == calls[i]);
        let time = match earlier {
            Some(earlier) => alone[earlier],
            None => {
                let repeated = capture(device, std::iter::repeat_n(step, steps.len()))?;
                let time = replayed(clock, &repeated)?.median / steps.len() as f64;
                let launched = clock.time(|_| step.launch(device))?;
                println!(
                    "{:<38} {:>14} {:>10.2} {:>10.2}",
                    chosen[i].name,
                    chosen[i].numel(),
                    time * 1e6,
                    launched.median * 1e6
                );
                time
            }
        };
        alone.push(time);
    }
    let sum: f64 = alone.iter().sum();
    let replay = replayed(clock, &graph)?;
    let launched = clock.time(|_| launch_all())?;
    let ratio = replay.median / sum;
    println!(
        "\n{} calls: as one graph {:.1} us (+-{:.1}%), the kernels alone {:.1} us: {ratio:.2} times, goal {GOAL}; \
         launched one by one {:.1} us; results {}",
        steps.len(),
        replay.median * 1e6,
        replay.spread() * 100.0,
        sum * 1e6,
        launched.median * 1e6,
        if same { "same bits" } else { "DIFFER" }
    );
    Ok(same && ratio <= GOAL)
}
