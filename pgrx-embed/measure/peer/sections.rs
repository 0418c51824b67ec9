//! The format of a peer's statements: text in sections, each after a line "-- name --".

use std::collections::HashMap;

use crate::Result;

pub struct Sections(HashMap<String, String>);

impl Sections {
    /// Parses texts. Text before the first section is for readers. If two sections have the same name, the last one
    /// counts.
    pub fn parse(texts: &[&str]) -> Sections {
        let mut sections: HashMap<String, String> = HashMap::new();
        for text in texts {
            let mut current = None;
            for line in text.lines() {
                if let Some(name) =
                    line.strip_prefix("-- ").and_then(|rest| rest.strip_suffix(" --"))
                {
                    sections.insert(name.to_owned(), String::new());
                    current = Some(name);
                } else if let Some(section) = current.and_then(|name| sections.get_mut(name)) {
                    section.push_str(line);
                    section.push('\n');
                }
            }
        }
        Sections(sections)
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|text| text.trim().trim_end_matches(';'))
    }

    pub fn need(&self, name: &str) -> Result<&str> {
        Ok(self.get(name).ok_or(format!("there is no section {name}"))?)
    }
}

#[cfg(test)]
mod tests {
    use super::Sections;

    #[test]
    fn a_section_is_what_stands_after_its_name() {
        let text = "To know.\n\n-- put --\nSELECT 1;\n\n-- put many --\n-- a comment\nSELECT 2\n";
        let sections = Sections::parse(&[text]);
        assert_eq!(sections.get("put"), Some("SELECT 1"));
        assert_eq!(sections.get("put many"), Some("-- a comment\nSELECT 2"));
        assert_eq!(sections.get("ack"), None);
    }

    #[test]
    fn a_second_text_replaces_sections_of_the_first() {
        let sections =
            Sections::parse(&["-- put --\n1\n-- task --\n{}\n", "To know.\n-- put --\n2\n"]);
        assert_eq!((sections.get("put"), sections.get("task")), (Some("2"), Some("{}")));
    }
}
