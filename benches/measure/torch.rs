//! PyTorch's time of the same op. A child process times it on the same GPU while this process waits: beside_torch.py
//! for the cases of the ops, products_torch.py for products.
use crate::Result;
use crate::cases::{Case, Source, Values};
use crate::shapes::Shape;
use candle_rocm_sys::DType;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A child process that answers each line with a line.
pub struct Conversation {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Conversation {
    pub fn start(command: &mut Command) -> Result<Conversation> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child =
            command.spawn().map_err(|error| format!("{}: {error}", command.get_program().to_string_lossy()))?;
        let (to, from) = (child.stdin.take(), child.stdout.take().ok_or("no output")?);
        Ok(Conversation { child, to, from: BufReader::new(from) })
    }

    /// The answer, without the spaces around it; "" where the child has ended.
    pub fn ask(&mut self, line: &str) -> Result<String> {
        let to = self.to.as_mut().ok_or("stopped")?;
        writeln!(to, "{line}")?;
        to.flush()?;
        let mut answer = String::new();
        self.from.read_line(&mut answer)?;
        Ok(answer.trim().to_owned())
    }

    /// The answer as seconds.
    pub fn ask_seconds(&mut self, line: &str) -> Result<f64> {
        let answer = self.ask(line)?;
        answer.parse().map_err(|_| format!("PyTorch answers {answer:?}").into())
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.to = None; // ends the script
        let _ = self.child.wait();
    }
}

/// beside_torch.py.
pub struct Torch(Conversation);

impl Torch {
    /// Starts the script. `command` is a Python with PyTorch, such as "python3", and the script's path if it is not in
    /// this folder.
    pub fn start(command: &str) -> Result<Torch> {
        let mut words = command.split_whitespace();
        let program = words.next().ok_or("--torch wants a command")?;
        let mut args: Vec<&str> = words.collect();
        if args.is_empty() {
            args.push(concat!(env!("CARGO_MANIFEST_DIR"), "/measure/beside_torch.py"));
        }
        Conversation::start(Command::new(program).args(args)).map(Torch)
    }

    /// The seconds of one call of the case's expression, over `sets` sets of tensors.
    pub fn time(&mut self, case: &Case, sets: usize) -> Result<f64> {
        let tensor = |dtype: DType, shape: &Shape, values: Values| {
            let below = if let Values::Below(bound) = values { bound } else { 0 };
            let Shape { dims, strides, offset } = shape;
            let dtype = dtype.name().unwrap_or("?");
            format!(r#"{{"dtype":"{dtype}","dims":{dims:?},"strides":{strides:?},"offset":{offset},"below":{below}}}"#)
        };
        let sources: Vec<_> = case.sources.iter().map(|s: &Source| tensor(s.dtype, &s.shape, s.values)).collect();
        let out = tensor(case.dst_dtype, &case.dst, Values::Any);
        let (run, x) = (&case.torch, sources.join(","));
        self.0.ask_seconds(&format!(r#"{{"run":"{run}","sets":{sets},"x":[{x}],"out":{out}}}"#))
    }
}
