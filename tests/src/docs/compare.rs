//! Compares the output of psql with a page.

/// Stands for any text in a line, and alone on a line for any number of lines.
const ANY: char = '…';

/// Normalizes a line so that column widths do not count: a run of blanks or dashes becomes one.
fn normalized(line: &str) -> String {
    let mut result = String::new();
    for c in line.trim().chars() {
        if !(matches!(c, ' ' | '-') && result.ends_with(c)) {
            result.push(c);
        }
    }
    result
}

pub fn is_shown(expected: &[String], actual: &[String]) -> bool {
    let lines = |text: &[String]| -> Vec<String> {
        text.iter().map(|line| normalized(line)).filter(|line| !line.is_empty()).collect()
    };
    matches(
        &lines(expected),
        &lines(actual),
        |line| line.chars().eq([ANY]),
        |a, b| line_matches(a, b),
    )
}

fn line_matches(expected: &str, actual: &str) -> bool {
    let chars = |line: &str| line.chars().collect::<Vec<_>>();
    matches(&chars(expected), &chars(actual), |c| *c == ANY, |a, b| a == b)
}

/// Matches items against a pattern in which some items stand for any sequence.
fn matches<T>(
    pattern: &[T],
    items: &[T],
    is_any: fn(&T) -> bool,
    is_same: fn(&T, &T) -> bool,
) -> bool {
    match pattern.split_first() {
        None => items.is_empty(),
        Some((first, rest)) if is_any(first) => {
            (0..=items.len()).any(|n| matches(rest, &items[n..], is_any, is_same))
        }
        Some((first, rest)) => items.split_first().is_some_and(|(item, others)| {
            is_same(first, item) && matches(rest, others, is_any, is_same)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(expected: &str, actual: &str) -> bool {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        is_shown(&lines(expected), &lines(actual))
    }

    #[test]
    fn what_differs_is_seen() {
        assert!(shown(" a \n---\n 1", " a\n-----\n   1\n"));
        assert!(!shown(" a \n---\n 1", " a \n---\n 2"));
        assert!(!shown(" 1", " 1\n 2"));
        assert!(!shown(" 1\n 2", " 1"));
        assert!(!shown("", " 1"));
        assert!(!shown("1 2", "12"));
    }

    #[test]
    fn dots_stand_for_any_text() {
        assert!(shown("taken by … here", "taken by 4242 here"));
        assert!(!shown("taken by … here", "taken by 4242 there"));
        assert!(shown("1\n…\n4", "1\n2\n3\n4"));
        assert!(!shown("1\n…\n4", "1\n2\n3"));
        assert!(!shown("a…", "b\na"));
    }
}
