//! A conversation with a model: the tokens in its cache, and the next answer.
use crate::model::Model;
use crate::tokenizer::Tokenizer;
use anyhow::{Result, bail};
use candle_transformers::generation::LogitsProcessor;
use std::fmt;
use std::io::Write;
use std::time::{Duration, Instant};

pub struct Session {
    pub tokenizer: Tokenizer,
    model: Model,
    sampler: LogitsProcessor,
    /// The number of tokens in the model's cache.
    cached: usize,
    /// The text of these tokens.
    cached_text: Vec<u8>,
}

/// An answer, and how fast it came.
pub struct Answer {
    pub text: String,
    /// The generated tokens. The token that ends an answer is not among them.
    pub tokens: Vec<u32>,
    /// Whether the answer ended because the context is full.
    pub is_full: bool,
    /// The tokens that were in the model's cache.
    pub reused: usize,
    /// The tokens that were read before the first one was generated.
    pub read: usize,
    /// The time that reading them took.
    reading: Duration,
    /// The time until the first token was there.
    first: Duration,
    /// The calls of the model that followed, and their time.
    steps: usize,
    generating: Duration,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let rate = |count: usize, time: Duration| count as f64 / time.as_secs_f64().max(1e-9);
        write!(f, "prompt: {} tokens", self.read)?;
        if self.reused > 0 {
            write!(f, " after {} in the cache", self.reused)?;
        }
        write!(
            f,
            ", {:.1} tokens/s; first token after {:.3} s",
            rate(self.read, self.reading),
            self.first.as_secs_f64()
        )?;
        write!(f, "; generated: {} tokens", self.tokens.len())?;
        if self.steps > 0 {
            write!(f, ", {:.1} tokens/s", rate(self.steps, self.generating))?;
        }
        Ok(())
    }
}

impl Session {
    pub fn new(tokenizer: Tokenizer, model: Model, sampler: LogitsProcessor) -> Session {
        Session { tokenizer, model, sampler, cached: 0, cached_text: Vec::new() }
    }

    /// The tokens of `text` that the model has to read, and the number of those before them in its cache.
    fn plan(&self, text: &str) -> Result<(Vec<u32>, usize)> {
        if self.cached > 0 && self.model.architecture.continues {
            let rest = text.as_bytes().strip_prefix(self.cached_text.as_slice());
            if let Some(rest) = rest.and_then(|rest| std::str::from_utf8(rest).ok()).filter(|rest| !rest.is_empty()) {
                if let Some(tokens) = self.tokenizer.encode_after(rest)? {
                    return Ok((tokens, self.cached));
                }
            }
        }
        Ok((self.tokenizer.encode(text)?, 0))
    }

    /// Continues `text`, the whole conversation, by at most `limit` tokens. Writes them to `output` as they come.
    ///
    /// If `text` begins with the text of the tokens in the model's cache, the model reads only what follows.
    pub fn answer(&mut self, text: &str, limit: usize, output: &mut dyn Write) -> Result<Answer> {
        let start = Instant::now();
        let (prompt, reused) = self.plan(text)?;
        let (read, context) = (prompt.len(), self.model.context);
        if read == 0 {
            bail!("the prompt has no tokens");
        }
        if reused + read > context {
            bail!("the conversation has {} tokens, and at most {context} fit (--context)", reused + read);
        }
        let answer = self.generate(text, &prompt, reused, start, limit, output);
        if answer.is_err() {
            // The number of tokens in the model's cache is not known. The next answer begins anew.
            (self.cached, self.cached_text) = (0, Vec::new());
        }
        answer
    }

    /// Reads `prompt` behind `reused` tokens, and generates at most `limit` more.
    fn generate(
        &mut self,
        text: &str,
        prompt: &[u32],
        reused: usize,
        start: Instant,
        limit: usize,
        output: &mut dyn Write,
    ) -> Result<Answer> {
        let (read, context) = (prompt.len(), self.model.context);
        let begin = Instant::now();
        let mut logits = self.model.forward(prompt, reused)?;
        self.model.synchronize()?;
        let reading = begin.elapsed();
        (self.cached, self.cached_text) = (reused + read, text.as_bytes().to_vec());

        let mut stream = self.tokenizer.stream();
        let mut answer = Answer {
            text: String::new(),
            tokens: Vec::new(),
            is_full: false,
            reused,
            read,
            reading,
            first: Duration::ZERO,
            steps: 0,
            generating: Duration::ZERO,
        };
        let mut begin = Instant::now();
        loop {
            let token = self.sampler.sample(&logits)?;
            if answer.first.is_zero() {
                answer.first = start.elapsed();
                begin = Instant::now();
            } else {
                answer.generating = begin.elapsed();
            }
            if self.tokenizer.is_end(token) {
                break;
            }
            answer.tokens.push(token);
            let piece = stream.push(token);
            output.write_all(piece.as_bytes())?;
            output.flush()?;
            answer.text += &piece;
            answer.is_full = self.cached == context;
            if answer.is_full || answer.tokens.len() == limit {
                break;
            }
            logits = self.model.forward(&[token], self.cached)?;
            answer.steps += 1;
            self.cached += 1;
            self.cached_text.extend(self.tokenizer.bytes(token));
        }
        let rest = stream.finish();
        output.write_all(rest.as_bytes())?;
        answer.text += &rest;
        Ok(answer)
    }
}
