//! The example chat: its tokenizers, templates and errors, and its answers beside those of Candle's CPU device. The
//! models are files of kilobytes with random weights.
#[path = "../../examples/chat/metadata.rs"]
mod metadata;
#[path = "../../examples/chat/model.rs"]
mod model;
#[path = "../../examples/chat/options.rs"]
mod options;
#[path = "../../examples/chat/run.rs"]
mod run;
#[path = "../../examples/chat/session.rs"]
mod session;
#[path = "../../examples/chat/template.rs"]
mod template;
#[path = "../../examples/chat/tokenizer.rs"]
mod tokenizer;

mod files;
mod models;
mod texts;
mod users;
