//! The fields of a GGUF file.
use anyhow::{Context, Result, anyhow};
use candle_core::quantized::gguf_file::Value;
use std::collections::HashMap;

/// The fields by their names.
pub struct Metadata<'a>(pub &'a HashMap<String, Value>);

impl Metadata<'_> {
    fn field<T>(&self, name: &str, kind: &str, read: impl Fn(&Value) -> Option<T>) -> Result<Option<T>> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| anyhow!("the file's {name} is not {kind}"))
    }

    pub fn text(&self, name: &str) -> Result<Option<String>> {
        self.field(name, "a string", |value| value.to_string().ok().cloned())
    }

    pub fn boolean(&self, name: &str) -> Result<Option<bool>> {
        self.field(name, "a boolean", |value| value.to_bool().ok())
    }

    pub fn number(&self, name: &str) -> Result<Option<u32>> {
        self.field(name, "a number of 32 bits", number)
    }

    pub fn texts(&self, name: &str) -> Result<Option<Vec<String>>> {
        self.list(name, "an array of strings", |value| value.to_string().ok().cloned())
    }

    pub fn numbers(&self, name: &str) -> Result<Option<Vec<u32>>> {
        self.list(name, "an array of numbers", number)
    }

    pub fn floats(&self, name: &str) -> Result<Option<Vec<f32>>> {
        self.list(name, "an array of floats", |value| value.to_f32().ok())
    }

    fn list<T>(&self, name: &str, kind: &str, read: impl Fn(&Value) -> Option<T>) -> Result<Option<Vec<T>>> {
        self.field(name, kind, |value| value.to_vec().ok()?.iter().map(&read).collect())
    }
}

/// Files have ids and kinds of tokens as integers of any width.
fn number(value: &Value) -> Option<u32> {
    match *value {
        Value::I8(n) => n.try_into().ok(),
        Value::I16(n) => n.try_into().ok(),
        Value::I32(n) => n.try_into().ok(),
        Value::I64(n) => n.try_into().ok(),
        _ => value.to_u64().ok()?.try_into().ok(),
    }
}

/// The value of a field that must be there.
pub fn needed<T>(value: Option<T>, name: &str) -> Result<T> {
    value.with_context(|| format!("the file has no {name}"))
}
