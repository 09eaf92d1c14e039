//! From text to tokens and back, and templates.
use crate::files::Vocabulary;
use crate::metadata::Metadata;
use crate::template::{Message, Role, Template, date};
use crate::tokenizer::Tokenizer;
use anyhow::Result;
use candle_core::quantized::tokenizer::TokenizerFromGguf;

const TEXTS: &[&str] = &[
    "",
    "hello world",
    " hello",
    "Grüße, süße Äpfel! Straße",
    "emoji 😀👩‍👩‍👧 and 🇩🇪",
    "many      spaces   and\ttabs\t\t",
    "lines\n\n\n  and\r\nmore \n ",
    "it's 12345 things: x=3.14; y[0]+=1",
    "日本語と中文，한국어",
    "a<|im_start|>user\nhello<|im_end|>\n<think>b</think>",
];

fn read(vocabulary: &Vocabulary) -> Result<Tokenizer> {
    Tokenizer::read(&Metadata(&vocabulary.content()?.metadata))
}

/// The text of tokens, hidden ones included.
fn decode(tokenizer: &Tokenizer, tokens: &[u32]) -> String {
    let bytes: Vec<u8> = tokens.iter().flat_map(|&token| tokenizer.bytes(token)).copied().collect();
    String::from_utf8(bytes).expect("whole characters")
}

const PRES: &[&str] = &[
    "default",
    "gpt-2",
    "llama-bpe",
    "smaug-bpe",
    "glm4",
    "qwen2",
    "deepseek-r1-qwen",
    "smollm",
    "tekken",
    "gpt-4o",
    "lfm2",
];

#[test]
fn byte_level_texts_come_back() -> Result<()> {
    for pre in PRES.iter().map(|&pre| Some(pre)).chain([None]) {
        let tokenizer = read(&Vocabulary::byte_level(pre))?;
        for &text in TEXTS {
            assert_eq!(decode(&tokenizer, &tokenizer.encode(text)?), text, "{pre:?}");
        }
    }
    Ok(())
}

#[test]
fn scored_texts_come_back() -> Result<()> {
    let tokenizer = read(&Vocabulary::scored())?;
    for &text in TEXTS {
        let tokens = tokenizer.encode(text)?;
        assert_eq!(tokens[0], 1, "bos");
        let mut stream = tokenizer.stream();
        let mut shown: String = tokens.iter().map(|&token| stream.push(token)).collect();
        shown += &stream.finish();
        assert_eq!(shown, text);
    }
    Ok(())
}

#[test]
fn merges_and_splits_are_those_of_the_file() -> Result<()> {
    let vocabulary = Vocabulary::byte_level(Some("qwen2"));
    let ids = |texts: &[&str]| texts.iter().map(|text| vocabulary.id(text)).collect::<Vec<_>>();
    let qwen2 = read(&vocabulary)?;
    let llama = read(&Vocabulary::byte_level(Some("llama-bpe")))?;
    let gpt2 = read(&Vocabulary::byte_level(None))?;
    assert_eq!(qwen2.encode("hello")?, ids(&["hello"]));
    assert_eq!(qwen2.encode("ü w")?, ids(&["Ã¼", "Ġw"]));
    assert_eq!(qwen2.encode("123")?, ids(&["1", "2", "3"]));
    assert_eq!(llama.encode("1231")?, ids(&["123", "1"]));
    // GPT-2 knows the contraction in small letters only.
    assert_eq!(llama.encode("X's")?, ids(&["X", "'s"]));
    assert_eq!(gpt2.encode("      w")?, ids(&["ĠĠĠĠ", "Ġ", "Ġw"]));
    assert_eq!(qwen2.encode("<|im_start|>hello<think>")?, ids(&["<|im_start|>", "hello", "<think>"]));
    Ok(())
}

/// candle-core reads some of the files too.
#[test]
fn tokens_are_those_of_candle() -> Result<()> {
    for pre in ["qwen2", "llama3", "smaug-bpe"] {
        let vocabulary = Vocabulary::byte_level(Some(pre));
        let (ours, candle) = (read(&vocabulary)?, tokenizers::Tokenizer::from_gguf(&vocabulary.content()?)?);
        for &text in TEXTS {
            let tokens = candle.encode(text, false).map_err(anyhow::Error::msg)?;
            assert_eq!(ours.encode(text)?, tokens.get_ids(), "{pre}: {text:?}");
        }
    }
    Ok(())
}

#[test]
fn scores_choose_the_merges() -> Result<()> {
    let vocabulary = Vocabulary::scored();
    let tokenizer = read(&vocabulary)?;
    let ids = |texts: &[&str]| texts.iter().map(|text| vocabulary.id(text)).collect::<Vec<_>>();
    assert_eq!(tokenizer.encode("hello")?, ids(&["<s>", "▁hello"]));
    assert_eq!(tokenizer.encode("abc")?, ids(&["<s>", "▁", "a", "bc"]));
    assert_eq!(tokenizer.encode("w€")?, ids(&["<s>", "▁w", "<0xE2>", "<0x82>", "<0xAC>"]));
    assert_eq!(tokenizer.encode("<s>[INST]ab")?, ids(&["<s>", "[INST]", "▁", "ab"]));
    // Text in the middle gets no space, so it cannot be continued here.
    assert_eq!(tokenizer.encode_after("ab")?, None);
    assert_eq!(tokenizer.encode_after("</s>ab")?, Some(ids(&["</s>", "▁", "ab"])));
    Ok(())
}

#[test]
fn a_stream_gives_whole_characters() -> Result<()> {
    let vocabulary = Vocabulary::byte_level(None);
    let tokenizer = read(&vocabulary)?;
    let chars = crate::tokenizer::byte_chars();
    let id = |byte: u8| vocabulary.id(&chars.iter().find(|entry| *entry.1 == byte).expect("all bytes").0.to_string());
    let mut stream = tokenizer.stream();
    let mut push = |byte| stream.push(id(byte));
    assert_eq!(["😀".bytes().map(&mut push).collect::<Vec<_>>()], [["", "", "", "😀"]]);
    assert_eq!([push(b'a'), push(0xc3), push(b'b')], ["a", "", "\u{fffd}b"]);
    assert_eq!([push(0xff), push(0xe2), push(0x82)], ["\u{fffd}", "", ""]);
    assert_eq!(stream.finish(), "\u{fffd}");
    let mut stream = tokenizer.stream();
    assert_eq!(stream.push(vocabulary.id("<|im_end|>")), "");
    assert_eq!(stream.push(vocabulary.id("<think>")), "<think>");
    Ok(())
}

#[test]
fn tokenizers_that_are_not_known_are_refused() {
    let error = |vocabulary: &Vocabulary| read(vocabulary).err().expect("an error").to_string();
    let sentence = error(&Vocabulary { model: "bert", ..Vocabulary::byte_level(None) });
    assert_eq!(sentence, "the tokenizer bert is not known; known are gpt2 and llama");
    let sentence = error(&Vocabulary::byte_level(Some("other")));
    assert!(sentence.starts_with("the tokenizer.ggml.pre other is not known; known are default, gpt-2,"), "{sentence}");
    let mut broken = Vocabulary::byte_level(None);
    broken.merges.push("x y".into());
    assert_eq!(error(&broken), "the merge \"x y\" gives no token of the vocabulary");
}

fn render(source: &str, messages: &[(Role, &str)]) -> Result<String> {
    let messages: Vec<Message> =
        messages.iter().map(|&(role, content)| Message { role, content: content.to_owned() }).collect();
    Template::new(source.to_owned(), "<s>", "</s>")?.render(&messages)
}

pub const CHATML: &str = "{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}";

pub const INST: &str = "{{ bos_token }}{% for message in messages %}
{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}
{% if message['role'] == 'user' %}
{{ '[INST]' + message['content'] + '[/INST]' }}
{%- else %}
{{ message['content'].strip() + eos_token }}
{%- endif %}
{% endfor %}";

#[test]
fn templates_are_rendered() -> Result<()> {
    use Role::{Assistant, User};
    let messages = [(User, "one"), (Assistant, " two "), (User, "three")];
    assert_eq!(
        render(CHATML, &messages)?,
        "<|im_start|>user\none<|im_end|>\n<|im_start|>assistant\n two <|im_end|>\n<|im_start|>user\nthree<|im_end|>\n\
         <|im_start|>assistant\n"
    );
    assert_eq!(render(INST, &messages)?, "<s>[INST]one[/INST]two</s>[INST]three[/INST]");
    // What templates of Qwen3 do: a namespace, a list from its end, Python's methods.
    let qwen3 = "{%- set ns = namespace(last='') %}
{%- for message in messages[::-1] %}
    {%- if message.role == 'user' and ns.last == '' %}{% set ns.last = message.content %}{% endif %}
{%- endfor %}
{%- if tools %}tools{% endif %}
{%- set answer = '<think>hm</think>\\nyes' %}
{{- ns.last.upper() }} {{ answer.split('</think>')[-1].lstrip('\\n') }} {{ answer.startswith('<think>') }}
{{- ' ' ~ (messages[0].content | tojson) ~ (' x' if enable_thinking is defined and not enable_thinking) }}";
    assert_eq!(render(qwen3, &messages)?, "THREE yes True \"one\"");
    assert_eq!(render("a {%- generation -%} b {%- endgeneration %} c", &messages)?, "ab c");
    assert_eq!(render("{{ tools | length }} {{ messages | length }}", &messages)?, "0 3");
    assert_eq!(render("{{ strftime_now('%Y')[:2] }}", &messages)?, "20");
    Ok(())
}

#[test]
fn errors_of_templates_are_sentences() {
    let error = |source: &str| format!("{:#}", render(source, &[(Role::Assistant, "x")]).expect_err("an error"));
    let sentence = error(INST);
    assert!(sentence.starts_with("the file's chat template fails: "), "{sentence}");
    assert!(sentence.contains("roles must alternate") && !sentence.contains('\n'), "{sentence}");
    let sentence = error("{% if %}");
    assert!(sentence.starts_with("the file's chat template cannot be read: "), "{sentence}");
}

#[test]
fn dates_are_those_of_the_calendar() {
    assert_eq!(date("%d %B %Y, %a %H:%M:%S%%", 0), "01 January 1970, Thu 00:00:00%");
    // 2024-02-29 is a day, and 2026-11-26 a Thursday.
    assert_eq!(date("%Y-%m-%d %b", 1_709_164_800), "2024-02-29 Feb");
    assert_eq!(date("%Y-%m-%d %A %H", 1_795_680_000 + 3600), "2026-11-26 Thursday 09");
    assert_eq!(date("%Y-%m-%d", 1_735_603_200), "2024-12-31");
}
