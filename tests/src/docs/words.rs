//! Finds sentences that a reader has to read twice.

use super::page::Page;

/// Maximum number of words in a sentence.
const MOST_WORDS: usize = 35;
/// Phrases that readers stumbled over. Each has an idiomatic substitute.
const PHRASES: [&str; 14] = [
    "in vain",
    "anew",
    "as ever",
    "beside",
    "for ever",
    "is over",
    "sick",
    "whatever",
    "the same of",
    "as every driver can",
    ", as it",
    ", as they",
    ", as that",
    "comes to nothing",
];

/// Returns the sentences of a page that are too long or contain such a phrase.
pub fn hard_sentences(page: &Page) -> Vec<String> {
    let mut hard = Vec::new();
    for (line, text) in paragraphs(page) {
        for sentence in sentences(&plain(&text)) {
            let words = sentence.split_whitespace().count();
            let long = (words > MOST_WORDS).then(|| format!("{words} words"));
            let phrases = PHRASES.iter().filter(|phrase| contains(&sentence, phrase));
            let defects = long.into_iter().chain(phrases.map(|phrase| format!("\"{phrase}\"")));
            hard.extend(
                defects.map(|it| format!("{}:{line}: {it}: {sentence}", page.path.display())),
            );
        }
    }
    hard
}

/// Whether a sentence contains a phrase, as whole words.
fn contains(sentence: &str, phrase: &str) -> bool {
    let text = sentence.to_lowercase();
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(phrase).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + phrase.len()..]);
        let begins_a_word = phrase.starts_with(',') || !is_letter(before.chars().next_back());
        begins_a_word && !is_letter(after.chars().next())
    })
}

/// Returns the paragraphs, items and table cells, each with the number of its first line.
fn paragraphs(page: &Page) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    for (number, line) in &page.prose {
        let text = line.trim();
        let is_text = !text.is_empty() && !text.starts_with(['#', '|']);
        if text.starts_with('|') {
            found.extend(
                text.split(" | ").map(|cell| (*number, cell.trim_matches(['|', ' ']).to_owned())),
            );
        } else if is_text {
            match (found.last_mut(), item(text)) {
                (Some((_, open)), None) if is_open => *open += &format!(" {text}"),
                (_, item) => found.push((*number, item.unwrap_or(text).to_owned())),
            }
        }
        is_open = is_text;
    }
    found
}

/// Returns the text of a line that begins an item of a list.
fn item(line: &str) -> Option<&str> {
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    let numbered = line.split_once(". ").filter(|(number, _)| is_number(number));
    line.strip_prefix("- ").or(numbered.map(|(_, text)| text))
}

/// Returns text without markup: code is one word, and a link is its text.
fn plain(text: &str) -> String {
    let without_code: String =
        text.split('`').enumerate().map(|(n, part)| if n % 2 == 0 { part } else { "X" }).collect();
    let mut plain = String::new();
    let mut rest = without_code.as_str();
    while let Some((before, target)) = rest.split_once("](") {
        plain += before;
        rest = target.split_once(')').map_or("", |(_, after)| after);
    }
    (plain + rest).replace(['[', '*'], "")
}

fn sentences(text: &str) -> Vec<String> {
    let ends = text.replace(". ", ".\n").replace("? ", "?\n").replace("! ", "!\n");
    ends.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[track_caller]
    fn assert_hard(text: &str, expected: &[&str]) {
        let found = hard_sentences(&Page::parse(Path::new("docs/a.md"), text));
        let starts = found.iter().zip(expected).all(|(found, start)| found.starts_with(start));
        assert!(found.len() == expected.len() && starts, "{found:?}");
    }

    #[test]
    fn long_sentences_are_found_and_short_ones_are_not() {
        let words = |count: usize| vec!["word"; count].join(" ");
        assert_hard(&format!("{}.\n{}?\n", words(35), words(35)), &[]);
        assert_hard(&format!("A.\n\n{}\n{}.\n", words(15), words(21)), &["docs/a.md:3: 36 words"]);
        assert_hard(&format!("- {}\n- {}\n", words(30), words(30)), &[]);
        assert_hard(&format!("1. {}\n2. {}\n", words(30), words(30)), &[]);
        assert_hard(&format!("| {} | {} |\n|---|---|\n", words(30), words(30)), &[]);
        assert_hard(&format!("`{}` and [{}](a.md#b).\n", words(30), words(30)), &[]);
        assert_hard(&format!("```sh\n{}\n```\n", words(50)), &[]);
    }

    #[test]
    fn phrases_are_found_as_words() {
        assert_hard("It waits in\nvain.\n", &["docs/a.md:1: \"in vain\""]);
        assert_hard("It is `in vain`, a main vaine, and Manew.\n", &[]);
        assert_hard("| x | It sleeps, as it must. |\n", &["docs/a.md:1: \", as it\""]);
    }
}
