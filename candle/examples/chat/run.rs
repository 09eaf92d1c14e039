//! The program: opens a model, and answers messages.
use crate::metadata::Metadata;
use crate::model::Opened;
use crate::options::Options;
use crate::session::Session;
use crate::template::{Message, Role, Template};
use crate::tokenizer::Tokenizer;
use anyhow::{Context, Result, ensure};
use candle_core::Device;
use candle_transformers::generation::LogitsProcessor;
use std::io::{BufRead, IsTerminal, Write};
use std::time::Instant;

/// Answers the prompt of the options, or else every line of `input`. The answers go to `output`.
pub fn run(options: &Options, device: &Device, input: &mut dyn BufRead, output: &mut dyn Write) -> Result<()> {
    let mut chat = Chat::open(options, device)?;
    if let Some(prompt) = &options.prompt {
        return chat.say(prompt.clone(), output);
    }
    let is_typed = std::io::stdin().is_terminal();
    let (mut line, mut left_out) = (Vec::new(), 0);
    loop {
        if is_typed {
            eprint!("> ");
        }
        line.clear();
        if input.read_until(b'\n', &mut line).context("cannot read standard input")? == 0 {
            // A script must see that answers are missing. A person has read it.
            ensure!(left_out == 0 || is_typed, "{left_out} messages have no answer");
            return Ok(());
        }
        let Ok(text) = std::str::from_utf8(&line) else {
            eprintln!("error: the line is not UTF-8; it is left out");
            left_out += 1;
            continue;
        };
        let message = text.trim_end_matches(['\r', '\n']);
        if message.is_empty() {
            continue;
        }
        match chat.say(message.to_owned(), output) {
            // Nobody reads the answers any more.
            Err(error) if error.is::<std::io::Error>() => return Err(error),
            Err(error) => {
                eprintln!("error: {error:#}; the message is left out");
                left_out += 1;
            }
            Ok(()) => {}
        }
    }
}

/// Notes whether anything was written.
struct Noted<'a> {
    output: &'a mut dyn Write,
    has_text: bool,
}

impl Write for Noted<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.has_text |= !bytes.is_empty();
        self.output.write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        self.output.flush()
    }
}

struct Chat {
    session: Session,
    /// None if the file has none. The conversation is then plain text.
    template: Option<Template>,
    messages: Vec<Message>,
    /// The most tokens of an answer.
    tokens: usize,
}

impl Chat {
    fn open(options: &Options, device: &Device) -> Result<Chat> {
        let start = Instant::now();
        let opened = Opened::open(&options.model, options.context)?;
        let metadata = Metadata(&opened.content.metadata);
        let tokenizer = Tokenizer::read(&metadata)?;
        let template = match metadata.text("tokenizer.chat_template")? {
            Some(source) => Some(Template::new(source, &tokenizer.bos_text, &tokenizer.eos_text)?),
            None => None,
        };
        let (name, bytes, context) = (opened.architecture.name, opened.bytes as f64 / 1e6, opened.context);
        let model = opened.load(device)?;
        let seconds = start.elapsed().as_secs_f64();
        eprintln!("{name}: {bytes:.1} MB of weights, loaded in {seconds:.1} s; context: {context} tokens");
        if template.is_none() {
            eprintln!("the file has no chat template: the model continues the text");
        }
        let sampler = LogitsProcessor::from_sampling(options.seed, options.sampling());
        let session = Session::new(tokenizer, model, sampler);
        Ok(Chat { session, template, messages: Vec::new(), tokens: options.tokens })
    }

    /// Answers a message, and prints how fast that was. A message without an answer is no part of the conversation.
    fn say(&mut self, content: String, output: &mut dyn Write) -> Result<()> {
        let before = self.messages.len();
        self.messages.push(Message { role: Role::User, content });
        self.answer(output).inspect_err(|_| self.messages.truncate(before))
    }

    fn answer(&mut self, output: &mut dyn Write) -> Result<()> {
        let text = match &self.template {
            Some(template) => template.render(&self.messages)?,
            None => plain(&self.messages),
        };
        let mut noted = Noted { output, has_text: false };
        let answer = self.session.answer(&text, self.tokens, &mut noted);
        if answer.is_ok() || noted.has_text {
            writeln!(output)?; // also behind a part of an answer
        }
        let answer = answer?;
        output.flush()?;
        eprintln!("{answer}");
        if answer.is_full {
            eprintln!("the context is full (--context)");
        }
        self.messages.push(Message { role: Role::Assistant, content: answer.text });
        Ok(())
    }
}

/// A conversation without a template: every message of the user after the first begins a line.
fn plain(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        if message.role == Role::User && !text.is_empty() {
            text.push('\n');
        }
        text += &message.content;
    }
    text
}
