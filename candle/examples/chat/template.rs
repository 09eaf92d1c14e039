//! The chat template of a model: from messages to the text that the model continues.
use anyhow::{Context, Result};
use minijinja::{Environment, ErrorKind, Value, context};
use minijinja_contrib::pycompat::unknown_method_callback;
use std::time::{SystemTime, UNIX_EPOCH};

/// Who says a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    User,
    Assistant,
}

pub struct Message {
    pub role: Role,
    pub content: String,
}

impl From<&Message> for Value {
    fn from(message: &Message) -> Value {
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        context! { role, content => message.content }
    }
}

/// A template of Jinja, with what the library transformers gives it.
pub struct Template {
    environment: Environment<'static>,
    bos: String,
    eos: String,
}

const NAME: &str = "chat_template";

impl Template {
    /// `bos` and `eos` are the texts of these tokens, or empty.
    pub fn new(source: String, bos: &str, eos: &str) -> Result<Template> {
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        // Templates call Python's methods, such as `content.split(..)`.
        environment.set_unknown_method_callback(unknown_method_callback);
        // In Python's Jinja, an undefined value has the length 0.
        environment.add_filter("length", |value: Value| value.len().unwrap_or(0));
        environment.add_function("raise_exception", |text: String| -> Result<String, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, text))
        });
        environment.add_function("strftime_now", |format: String| date(&format, now()));
        environment
            .add_template_owned(NAME, without_marks(source))
            .map_err(|error| anyhow::anyhow!("the file's chat template cannot be read: {error}"))?;
        Ok(Template { environment, bos: bos.to_owned(), eos: eos.to_owned() })
    }

    /// The text of a conversation, up to where the answer to its last message begins.
    pub fn render(&self, messages: &[Message]) -> Result<String> {
        let messages: Vec<Value> = messages.iter().map(Value::from).collect();
        let fields = context! { messages, add_generation_prompt => true, bos_token => self.bos, eos_token => self.eos };
        let template = self.environment.get_template(NAME).context("there is a template")?;
        template.render(fields).map_err(|error| anyhow::anyhow!("the file's chat template fails: {error}"))
    }
}

/// Takes the tag `generation` out. It marks answers for training and changes no text.
fn without_marks(mut source: String) -> String {
    for open in ["{%", "{%-"] {
        for close in ["%}", "-%}"] {
            source = source.replace(&format!("{open} generation {close}"), &format!("{open} if true {close}"));
            source = source.replace(&format!("{open} endgeneration {close}"), &format!("{open} endif {close}"));
        }
    }
    source
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Python's `strftime` of a time in seconds since 1970, in UTC, for the letters that templates use.
pub fn date(format: &str, seconds: u64) -> String {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    const WEEKDAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
    let days = seconds / 86400;
    // Years begin with March here, in cycles of 400 years since the year 0 (H. Hinnant, "chrono-Compatible Low-Level
    // Date Algorithms").
    let (cycle, day) = ((days + 719_468) / 146_097, (days + 719_468) % 146_097);
    let years = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * years + years / 4 - years / 100);
    let since_march = (5 * day + 2) / 153;
    let day = day - (153 * since_march + 2) / 5;
    let month = (since_march as usize + 2) % 12;
    let year = 400 * cycle + years + u64::from(month < 2);
    let weekday = WEEKDAYS[(days % 7) as usize];
    let mut text = String::new();
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        match letters.next() {
            Some('Y') => text += &year.to_string(),
            Some('m') => text += &format!("{:02}", month + 1),
            Some('d') => text += &format!("{:02}", day + 1),
            Some('B') => text += MONTHS[month],
            Some('b') => text += &MONTHS[month][..3],
            Some('A') => text += weekday,
            Some('a') => text += &weekday[..3],
            Some('H') => text += &format!("{:02}", seconds / 3600 % 24),
            Some('M') => text += &format!("{:02}", seconds / 60 % 60),
            Some('S') => text += &format!("{:02}", seconds % 60),
            Some('%') => text.push('%'),
            Some(other) => text.extend(['%', other]),
            None => text.push('%'),
        }
    }
    text
}
