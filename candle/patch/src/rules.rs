//! The rules: where a rule applies in a source, and what it writes there.
//!
//! Candle's backends are parallel: each has its own enum variant, match arm and function. So almost every rule finds
//! the places that name CUDA (or Metal) and adds a twin that names ROCm. Places are found in the syntax tree, and the
//! edits are made in the text. The rest of the text stays as it is.

use anyhow::{Context, Result, bail};
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use std::cmp::Reverse;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// The backend that serves as the model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Backend {
    Cuda,
    Metal,
}

impl Backend {
    fn lower(self) -> &'static str {
        match self {
            Backend::Cuda => "cuda",
            Backend::Metal => "metal",
        }
    }

    fn names(self) -> [(String, &'static str); 5] {
        let lower = self.lower();
        [
            (format!("feature = \"{lower}\""), "feature = \"_rocm\""),
            // A constant's name, then a word of a comment.
            (format!("{}_", lower.to_uppercase()), "ROCM_"),
            (lower.to_uppercase(), "ROCm"),
            (format!("{self:?}"), "Rocm"),
            (lower.to_owned(), "rocm"),
        ]
    }
}

/// Replaces the backend's names with ROCm's. Also returns the number of replacements.
pub fn rename(text: &str, from: Backend) -> (String, usize) {
    let (mut text, mut count) = (text.to_owned(), 0);
    for (name, rocm) in from.names() {
        count += text.matches(&name).count();
        text = text.replace(&name, rocm);
    }
    (text, count)
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// A match arm whose pattern names the backend. Adds an arm after it; in an or-pattern, adds a case after it.
    Arms,
    /// A variant of an enum. Adds a variant after it.
    Variants,
    /// A function that has the backend in its name or is compiled only for it. Adds a function after it.
    Functions,
    /// A module, `use` or static at a file's top level that names the backend. Adds another after it.
    Items,
    /// A name in the braces of a `use`. Adds a name after it.
    Names,
    /// A macro invocation as an item that names the backend. Adds another after it.
    Invocations,
    /// An `else if` with a condition about the backend. Adds another after it.
    ElseIfs,
    /// A statement that calls a function with the backend in its path. Adds another after it.
    Calls,
    /// `x.is_cuda()` as a condition or an operand of `||` or `&&`. Adds `|| x.is_rocm()` after it, and in an `&&` the
    /// parentheses.
    Questions,
    /// An invocation of a macro that makes one test per device from its arguments. Adds a fifth name after the fourth.
    Tests,
    /// The beginning of a function's body. Inserts the hook's text.
    Beginnings,
    /// Replaces every occurrence of the first text with the second.
    Text(&'static str, &'static str),
}

/// A place where a rule applies.
pub struct Place {
    /// The names of the enclosing items and of the place itself: `ArgSort::cuda_fwd`.
    pub path: String,
    /// The range of the node that the rule found.
    pub node: Range<usize>,
    /// The text that the twin is made from. `body` is the part of it that a hook may replace.
    pub original: String,
    pub body: Range<usize>,
    /// The position of the twin, and the text between it and the text before.
    pub at: usize,
    pub separator: String,
    /// Whether the place and its twin need parentheses together.
    pub grouped: bool,
}

impl Place {
    /// The edit that adds the twin.
    pub fn edit(self, twin: &str) -> Edit {
        let text = format!("{}{twin}", self.separator);
        if self.grouped {
            return Edit { range: self.node, text: format!("({}{text})", self.original) };
        }
        Edit { range: self.at..self.at, text }
    }
}

/// A range of a source and its new text.
#[derive(Debug)]
pub struct Edit {
    pub range: Range<usize>,
    pub text: String,
}

/// The places of a rule in a file, in source order.
pub fn places(source: &str, rule: Rule, of: Backend) -> Result<Vec<Place>> {
    let file = syn::parse_file(source)?;
    let mut finder = Finder { source, rule, of, path: Vec::new(), places: Vec::new() };
    finder.visit_file(&file);
    Ok(finder.places)
}

/// Applies edits to a source. An edit inside a larger one is left out. Fails if two edits overlap otherwise.
pub fn apply(source: &str, mut edits: Vec<Edit>) -> Result<String> {
    edits.sort_by_key(|edit| (edit.range.start, Reverse(edit.range.end)));
    let (mut text, mut done, mut last) = (String::with_capacity(source.len()), 0, 0..0);
    for edit in edits {
        if !edit.range.is_empty() && edit.range.end <= done && edit.range != last {
            continue;
        }
        last = edit.range.clone();
        let between = source.get(done..edit.range.start).with_context(|| format!("two hooks change: {}", edit.text))?;
        text.push_str(between);
        text.push_str(&edit.text);
        done = edit.range.end;
    }
    text.push_str(&source[done..]);
    Ok(text)
}

/// The twin of a place: its text with ROCm in place of the backend. If `body` is given, it replaces the body. Else the
/// pairs of `replaced` give the texts to exchange.
pub fn twin(place: &Place, of: Backend, body: Option<&str>, replaced: &[(&str, &str)]) -> Result<String> {
    if let Some(body) = body {
        let (head, _) = rename(&place.original[..place.body.start], of);
        let (tail, _) = rename(&place.original[place.body.end..], of);
        return Ok([&head, body, &tail].concat());
    }
    let (mut text, mut rest) = (String::new(), place.original.as_str());
    for (old, new) in replaced {
        let parts: Vec<&str> = rest.split(old).collect();
        let [before, after] = parts[..] else {
            bail!("'{old}' is {} times, not once, in what follows: {rest}", parts.len() - 1);
        };
        text += &rename(before, of).0;
        text += new;
        rest = after;
    }
    Ok(text + &rename(rest, of).0)
}

struct Finder<'a> {
    source: &'a str,
    rule: Rule,
    of: Backend,
    path: Vec<String>,
    places: Vec<Place>,
}

impl Finder<'_> {
    fn named(&self, name: impl ToString) -> bool {
        let lower = self.of.lower();
        name.to_string().to_lowercase().contains(lower)
    }

    /// Whether an identifier or literal in these tokens names the backend.
    fn mentioned(&self, tokens: TokenStream) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Group(group) => self.mentioned(group.stream()),
            TokenTree::Punct(_) => false,
            name => self.named(name),
        })
    }

    /// A line break with the indentation of the line that contains `at`.
    fn line(&self, at: usize) -> String {
        let start = self.source[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let text = &self.source[start..];
        format!("\n{}", &text[..text.len() - text.trim_start().len()])
    }

    fn add(&mut self, node: Range<usize>, at: usize, separator: String) {
        let original = self.source[node.clone()].to_owned();
        let body = original.len()..original.len();
        self.places.push(Place { path: self.path.join("::"), node, original, body, at, separator, grouped: false });
    }

    /// Adds a place in a comma-separated list. Its twin becomes the next element.
    fn add_listed(&mut self, node: Range<usize>, comma: Option<syn::Token![,]>, needs_comma: bool) {
        let line = self.line(node.start);
        match comma {
            Some(comma) => {
                let end = comma.span.byte_range().end;
                self.add(node.start..end, end, line);
            }
            None => self.add(node.clone(), node.end, if needs_comma { format!(",{line}") } else { line }),
        }
    }

    fn last_body(&mut self, body: Range<usize>) {
        if let Some(place) = self.places.last_mut() {
            place.body = body.start - place.node.start..body.end - place.node.start;
        }
    }

    fn within(&mut self, name: impl ToString, visit: impl FnOnce(&mut Self)) {
        self.path.push(name.to_string());
        visit(self);
        self.path.pop();
    }

    /// Handles a function; `visit` searches its body. A function of the backend's own is not searched, because its twin
    /// is ROCm's as a whole.
    fn function(
        &mut self,
        node: Range<usize>,
        attributes: &[syn::Attribute],
        signature: &syn::Signature,
        block: Option<&syn::Block>,
        visit: impl FnOnce(&mut Self),
    ) {
        let condition = format!("feature = \"{}\"", self.of.lower());
        let guarded = attributes.iter().any(|attribute| match &attribute.meta {
            syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == condition,
            _ => false,
        });
        self.path.push(signature.ident.to_string());
        if self.rule == Rule::Beginnings {
            if let Some(block) = block {
                let at = block.brace_token.span.open().byte_range().end;
                let separator = format!("{}    ", self.line(node.start));
                self.add(node, at, separator);
                if let Some(place) = self.places.last_mut() {
                    place.original.clear();
                    place.body = 0..0;
                }
            }
        } else if guarded || self.named(&signature.ident) {
            if self.rule == Rule::Functions {
                let separator = format!("\n{}", self.line(node.start));
                self.add(node.clone(), node.end, separator);
                if let Some(block) = block {
                    self.last_body(block.span().byte_range());
                }
            }
        } else {
            visit(self);
        }
        self.path.pop();
    }

    fn question(&mut self, expression: &syn::Expr, grouped: bool) {
        let syn::Expr::MethodCall(call) = expression else { return };
        if self.rule == Rule::Questions && call.method == format!("is_{}", self.of.lower()) {
            let node = call.span().byte_range();
            self.add(node.clone(), node.end, " || ".into());
            if let Some(place) = self.places.last_mut() {
                place.grouped = grouped;
            }
        }
    }

    fn invocation(&mut self, node: Range<usize>, invoked: &syn::Macro) {
        if self.rule == Rule::Invocations && self.mentioned(invoked.tokens.clone()) {
            let separator = self.line(node.start);
            self.add(node.clone(), node.end, separator);
        }
        let makes_tests = ["test_device", "quantized_matmul"].iter().any(|name| invoked.path.is_ident(name));
        if self.rule != Rule::Tests || !makes_tests {
            return;
        }
        let names: Vec<_> = invoked.tokens.clone().into_iter().step_by(2).collect();
        if let [_, _, TokenTree::Ident(cuda), TokenTree::Ident(fourth), ..] = &names[..] {
            self.add(node, fourth.span().byte_range().end, ", ".into());
            if let Some(place) = self.places.last_mut() {
                // The names of some CUDA tests say "gpu".
                place.original = cuda.to_string().replace("_gpu", "_cuda");
                place.path = cuda.to_string();
            }
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_file(&mut self, file: &'ast syn::File) {
        for item in &file.items {
            let mentioned = match item {
                syn::Item::Mod(module) => self.named(&module.ident),
                syn::Item::Use(item) => self.mentioned(item.tree.to_token_stream()),
                syn::Item::Static(item) => self.named(&item.ident),
                _ => false,
            };
            if self.rule == Rule::Items && mentioned {
                let node = item.span().byte_range();
                let space = if self.source[..node.end].ends_with('}') { "\n\n" } else { "\n" };
                self.add(node.clone(), node.end, space.into());
            }
        }
        visit::visit_file(self, file);
    }

    fn visit_item_impl(&mut self, node: &'ast syn::ItemImpl) {
        let name = match &*node.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
            _ => None,
        };
        self.within(name.unwrap_or_default(), |finder| visit::visit_item_impl(finder, node));
    }

    fn visit_item_trait(&mut self, node: &'ast syn::ItemTrait) {
        self.within(&node.ident, |finder| visit::visit_item_trait(finder, node));
    }

    fn visit_item_fn(&mut self, node: &'ast syn::ItemFn) {
        let range = node.span().byte_range();
        self.function(range, &node.attrs, &node.sig, Some(&node.block), |finder| visit::visit_item_fn(finder, node));
    }

    fn visit_impl_item_fn(&mut self, node: &'ast syn::ImplItemFn) {
        let range = node.span().byte_range();
        self.function(range, &node.attrs, &node.sig, Some(&node.block), |finder| {
            visit::visit_impl_item_fn(finder, node);
        });
    }

    fn visit_trait_item_fn(&mut self, node: &'ast syn::TraitItemFn) {
        let range = node.span().byte_range();
        self.function(range, &node.attrs, &node.sig, node.default.as_ref(), |finder| {
            visit::visit_trait_item_fn(finder, node);
        });
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if self.rule != Rule::Arms || !self.mentioned(arm.pat.to_token_stream()) {
            return visit::visit_arm(self, arm);
        }
        // The body of the backend's arm is not searched: it belongs to the backend.
        let case = match &arm.pat {
            syn::Pat::Or(cases) => cases.cases.iter().find(|case| self.mentioned(case.to_token_stream())),
            _ => None,
        };
        if let Some(case) = case {
            let node = case.span().byte_range();
            self.add(node.clone(), node.end, " | ".into());
        } else {
            let node = arm.span().byte_range();
            self.add_listed(node, arm.comma, !matches!(*arm.body, syn::Expr::Block(_)));
            self.last_body(arm.body.span().byte_range());
        }
    }

    fn visit_item_enum(&mut self, node: &'ast syn::ItemEnum) {
        for pair in node.variants.pairs() {
            let variant = pair.value();
            if self.rule == Rule::Variants && self.named(&variant.ident) {
                self.add_listed(variant.span().byte_range(), pair.punct().map(|comma| **comma), true);
            }
        }
    }

    fn visit_use_group(&mut self, group: &'ast syn::UseGroup) {
        for tree in &group.items {
            if let syn::UseTree::Name(name) = tree {
                if self.rule == Rule::Names && self.named(&name.ident) {
                    let node = name.span().byte_range();
                    self.add(node.clone(), node.end, ", ".into());
                }
            }
        }
        visit::visit_use_group(self, group);
    }

    fn visit_item_macro(&mut self, node: &'ast syn::ItemMacro) {
        if node.ident.is_none() {
            self.invocation(node.span().byte_range(), &node.mac);
        }
    }

    fn visit_impl_item_macro(&mut self, node: &'ast syn::ImplItemMacro) {
        self.invocation(node.span().byte_range(), &node.mac);
    }

    fn visit_stmt(&mut self, statement: &'ast syn::Stmt) {
        if let (Rule::Calls, syn::Stmt::Expr(syn::Expr::Call(call), Some(_))) = (self.rule, statement) {
            if self.mentioned(call.func.to_token_stream()) {
                let node = statement.span().byte_range();
                let separator = self.line(node.start);
                return self.add(node.clone(), node.end, separator);
            }
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_expr_if(&mut self, node: &'ast syn::ExprIf) {
        self.question(&node.cond, false);
        if let Some((_, other)) = &node.else_branch {
            if let syn::Expr::If(other) = &**other {
                if self.rule == Rule::ElseIfs && self.mentioned(other.cond.to_token_stream()) {
                    let node = other.if_token.span.byte_range().start..other.then_branch.span().byte_range().end;
                    self.add(node.clone(), node.end, " else ".into());
                }
            }
        }
        visit::visit_expr_if(self, node);
    }

    fn visit_expr_binary(&mut self, node: &'ast syn::ExprBinary) {
        let grouped = matches!(node.op, syn::BinOp::And(_));
        if grouped || matches!(node.op, syn::BinOp::Or(_)) {
            self.question(&node.left, grouped);
            self.question(&node.right, grouped);
        }
        visit::visit_expr_binary(self, node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source after the rule added a twin at every place.
    fn patched(source: &str, rule: Rule, of: Backend) -> String {
        let edits = places(source, rule, of).unwrap().into_iter().map(|place| {
            let text = twin(&place, of, None, &[]).unwrap();
            place.edit(&text)
        });
        apply(source, edits.collect()).unwrap()
    }

    #[test]
    fn names_keep_their_case() {
        let text = "#[cfg(feature = \"cuda\")] CUDA support: CudaDevice, new_cuda, Metal";
        let renamed = "#[cfg(feature = \"_rocm\")] ROCm support: RocmDevice, new_rocm, Metal";
        assert_eq!(rename(text, Backend::Cuda), (renamed.to_owned(), 4));
    }

    #[test]
    fn arms() {
        let source = "\
fn f(s: S) -> u8 {
    match s {
        S::Cpu(_) => 0,
        S::Cuda(c) => match c.other() {
            S::Cuda(_) => 1,
            _ => 2,
        },
        #[cfg(feature = \"cuda\")]
        (S::Cuda(a), S::Cuda(b)) => { a + b }
        S::Cuda(_) => 3
    }
}
fn f_cuda(s: S) { match s { S::Cuda(_) => 3 } }
#[cfg(feature = \"cuda\")]
fn g(s: S) { match s { S::Cuda(_) => 3 } }
";
        let expected = "\
fn f(s: S) -> u8 {
    match s {
        S::Cpu(_) => 0,
        S::Cuda(c) => match c.other() {
            S::Cuda(_) => 1,
            _ => 2,
        },
        S::Rocm(c) => match c.other() {
            S::Rocm(_) => 1,
            _ => 2,
        },
        #[cfg(feature = \"cuda\")]
        (S::Cuda(a), S::Cuda(b)) => { a + b }
        #[cfg(feature = \"_rocm\")]
        (S::Rocm(a), S::Rocm(b)) => { a + b }
        S::Cuda(_) => 3,
        S::Rocm(_) => 3
    }
}
fn f_cuda(s: S) { match s { S::Cuda(_) => 3 } }
#[cfg(feature = \"cuda\")]
fn g(s: S) { match s { S::Cuda(_) => 3 } }
";
        assert_eq!(patched(source, Rule::Arms, Backend::Cuda), expected);
    }

    #[test]
    fn cases() {
        let source = "fn f() { match s { S::Metal(_) | S::Cuda(_) => 1, S::Cuda(x) => x } }";
        let arms =
            "fn f() { match s { S::Metal(_) | S::Cuda(_) | S::Rocm(_) => 1, S::Cuda(x) => x,\nS::Rocm(x) => x } }";
        assert_eq!(patched(source, Rule::Arms, Backend::Cuda), arms);
        let metal = "fn f() { match s { S::Metal(_) | S::Rocm(_) | S::Cuda(_) => 1, S::Cuda(x) => x } }";
        assert_eq!(patched(source, Rule::Arms, Backend::Metal), metal);
    }

    #[test]
    fn variants() {
        let source = "enum E {\n    Cpu,\n    /// A CUDA error.\n    #[error(\"é\")]\n    Cuda(Box<E>),\n    \
            NoCuda { a: u8 }\n}\n";
        let expected = "enum E {\n    Cpu,\n    /// A CUDA error.\n    #[error(\"é\")]\n    Cuda(Box<E>),\n    \
            /// A ROCm error.\n    #[error(\"é\")]\n    Rocm(Box<E>),\n    NoCuda { a: u8 },\n    \
            NoRocm { a: u8 }\n}\n";
        assert_eq!(patched(source, Rule::Variants, Backend::Cuda), expected);
    }

    #[test]
    fn functions() {
        let source = "impl A {\n    /// On CUDA.\n    fn new_cuda() -> u8 {\n        cuda::one()\n    }\n\
            \n    fn other() {}\n}\n";
        let twin = "    /// On ROCm.\n    fn new_rocm() -> u8 {\n        rocm::one()\n    }\n";
        let (before, after) = source.split_once("\n    fn other").unwrap();
        assert_eq!(patched(source, Rule::Functions, Backend::Cuda), format!("{before}\n{twin}\n    fn other{after}"));
        let place = &places(source, Rule::Functions, Backend::Cuda).unwrap()[0];
        assert_eq!(place.path, "A::new_cuda");
        let text = super::twin(place, Backend::Cuda, Some("{ 1 }"), &[]).unwrap();
        assert_eq!(text, "/// On ROCm.\n    fn new_rocm() -> u8 { 1 }");
        let text = super::twin(place, Backend::Cuda, None, &[("cuda::one", "cuda::two")]).unwrap();
        assert!(text.contains("fn new_rocm() -> u8 {\n        cuda::two()"), "{text}");
        assert!(super::twin(place, Backend::Cuda, None, &[("three", "four")]).is_err());
    }

    #[test]
    fn items_and_names() {
        let source = "#[cfg(feature = \"cuda\")]\npub mod cuda;\nmod cpu;\nuse crate::{bail, CudaStorage, Shape};\n\
            static CUDA_ON: u8 = 1;\nmod my_cuda {\n    fn f() {}\n}\n";
        let items = "#[cfg(feature = \"cuda\")]\npub mod cuda;\n#[cfg(feature = \"_rocm\")]\npub mod rocm;\n\
            mod cpu;\nuse crate::{bail, CudaStorage, Shape};\nuse crate::{bail, RocmStorage, Shape};\n\
            static CUDA_ON: u8 = 1;\nstatic ROCM_ON: u8 = 1;\nmod my_cuda {\n    fn f() {}\n}\n\n\
            mod my_rocm {\n    fn f() {}\n}\n";
        assert_eq!(patched(source, Rule::Items, Backend::Cuda), items);
        let names = source.replace("CudaStorage", "CudaStorage, RocmStorage");
        assert_eq!(patched(source, Rule::Names, Backend::Cuda), names);
    }

    #[test]
    fn calls() {
        let source = "fn f() {\n    #[cfg(feature = \"cuda\")]\n    q::cuda::set(true);\n    other(cuda);\n}\n";
        let twin = "set(true);\n    #[cfg(feature = \"_rocm\")]\n    q::rocm::set(true);";
        assert_eq!(patched(source, Rule::Calls, Backend::Cuda), source.replace("set(true);", twin));
    }

    #[test]
    fn invocations() {
        let source = "macro_rules! m { (cuda) => {} }\nimpl A {\n    m!(cpu_fwd);\n    m!(cuda_fwd, CudaStorage);\n}\n";
        let expected = source.replace("CudaStorage);", "CudaStorage);\n    m!(rocm_fwd, RocmStorage);");
        assert_eq!(patched(source, Rule::Invocations, Backend::Cuda), expected);
    }

    #[test]
    fn else_ifs_and_questions() {
        let source =
            "fn f() { if cfg!(feature = \"metal\") { a } else if cfg!(feature = \"cuda\") { cuda() } else { b } }";
        let expected = source.replace("{ cuda() }", "{ cuda() } else if cfg!(feature = \"_rocm\") { rocm() }");
        assert_eq!(patched(source, Rule::ElseIfs, Backend::Cuda), expected);

        let source = "fn f() { if d.is_cuda() { a } if (d.is_cuda() || d.is_metal()) && b { c } }";
        let expected = source.replace("d.is_cuda()", "d.is_cuda() || d.is_rocm()");
        assert_eq!(patched(source, Rule::Questions, Backend::Cuda), expected);
        let source = "fn f() { let y = if q.device().is_metal() && n == 1 { a } else { b }; }";
        let expected = source.replace("q.device().is_metal()", "(q.device().is_metal() || q.device().is_rocm())");
        assert_eq!(patched(source, Rule::Questions, Backend::Metal), expected);
        // Not where the negation would change the condition's meaning.
        assert!(places("fn f() { if !d.is_cuda() && b {} }", Rule::Questions, Backend::Cuda).unwrap().is_empty());
    }

    #[test]
    fn tests_of_devices() {
        let source = "test_device!(a, a_cpu, a_gpu, a_metal);\n\
            quantized_matmul!(\n    q,\n    q_cpu,\n    q_cuda,\n    q_metal,\n    Q4\n);\nother!(a, b, c, d);\n";
        let expected = source.replace("a_metal", "a_metal, a_rocm").replace("q_metal", "q_metal, q_rocm");
        assert_eq!(patched(source, Rule::Tests, Backend::Cuda), expected);
    }

    #[test]
    fn edits_must_not_meet() {
        let edit = |range| Edit { range, text: "-".into() };
        assert_eq!(apply("abcdef", vec![edit(4..5), edit(1..3), edit(3..3)]).unwrap(), "a--d-f");
        assert!(apply("abcdef", vec![edit(1..3), edit(2..4)]).is_err());
        assert!(apply("abcdef", vec![edit(1..3), edit(1..3)]).is_err());
        // What a larger edit replaces is gone.
        assert_eq!(apply("abcdef", vec![edit(2..3), edit(1..4), edit(3..4), edit(1..2)]).unwrap(), "a-ef");
    }
}
