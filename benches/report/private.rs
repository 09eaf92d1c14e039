//! Keeps private data out of a report: the folders of users, the name of the user, the name of the machine.
use std::path::Path;

/// Replaces home folders by `~`, the user's name after the word `user`, and the machine's name.
pub fn clean(text: &str) -> String {
    let mut text = text.to_owned();
    for variable in ["HOME", "USERPROFILE"] {
        let home = std::env::var(variable).unwrap_or_default();
        let home = home.trim_end_matches(['/', '\\']);
        // A root folder, or none at all, tells nothing.
        if Path::new(home).is_absolute() && Path::new(home).parent().is_some() {
            text = replace(&text, home, "~");
        }
    }
    for folder in ["/home/", "/Users/", "C:\\Users\\"] {
        text = shorten(&text, folder);
    }
    text = after(&text, "user ", "USER");
    match sysinfo::System::host_name() {
        Some(host) if host.len() > 3 && host != "localhost" => replace(&text, &host, "HOST"),
        _ => text,
    }
}

fn is_part(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '-')
}

/// Replaces `from` where it is not a part of a longer word.
fn replace(text: &str, from: &str, to: &str) -> String {
    let (mut done, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(from) {
        let (before, after) = (&rest[..at], &rest[at + from.len()..]);
        let whole = !is_part(before.chars().next_back()) && !is_part(after.chars().next());
        done = done + before + if whole { to } else { from };
        rest = after;
    }
    done + rest
}

/// Replaces the folder of a user in `folder` by `~`.
fn shorten(text: &str, folder: &str) -> String {
    let mut parts = text.split(folder);
    let mut done = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !is_part(Some(c)) && c != '.').unwrap_or(part.len());
        done = done + "~" + &part[end..];
    }
    done
}

/// Replaces the word after `before`, as in "user alice is not in group render".
fn after(text: &str, before: &str, to: &str) -> String {
    let mut parts = text.split(before);
    let mut done = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(' ').unwrap_or(part.len());
        let names_a_user = [" is ", " was "].iter().any(|verb| part[end..].starts_with(verb));
        done = done + before + if names_a_user { to } else { &part[..end] } + &part[end..];
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_report_says_of_a_user_and_a_machine_is_replaced() {
        for (text, cleaned) in [
            ("", ""),
            ("/home/alice/rocm/lib, /home/bob", "~/rocm/lib, ~"),
            ("/home/a.b-c_d/x:/home/e", "~/x:~"),
            ("C:\\Users\\Alice\\x and /Users/alice/y", "~\\x and ~/y"),
            ("user alice is not in group render", "user USER is not in group render"),
            ("user alice was added", "user USER was added"),
            ("the user namespace of a container", "the user namespace of a container"),
            ("/opt/rocm/lib/libamdhip64.so", "/opt/rocm/lib/libamdhip64.so"),
        ] {
            assert_eq!(clean(text), cleaned, "{text:?}");
        }
    }

    #[test]
    fn only_whole_words_are_replaced() {
        for (text, cleaned) in [
            ("crow, crowd, scarecrow, crow-1, crow_1", "HOST, crowd, scarecrow, crow-1, crow_1"),
            ("crow", "HOST"),
            ("crow:crow", "HOST:HOST"),
            ("(crow) crow.", "(HOST) HOST."),
        ] {
            assert_eq!(replace(text, "crow", "HOST"), cleaned, "{text:?}");
        }
    }

    #[test]
    fn this_process_own_home_is_replaced() {
        let home = std::env::var("HOME").unwrap_or_default();
        if Path::new(&home).parent().is_some() {
            assert_eq!(clean(&format!("{home}/x")), "~/x");
            assert_eq!(clean(&format!("{home}work/x")), shorten(&format!("{home}work/x"), "/home/"));
        }
    }
}
