//! A work as a script for pgbench: steps of one statement each.

use super::sections::Sections;
use super::{MANY, Work};

pub struct Steps {
    texts: Vec<String>,
    /// The index of the take.
    take: usize,
}

impl Steps {
    /// Returns None if the peer does not support this work.
    pub fn of(sections: &Sections, work: Work) -> Option<Steps> {
        let section = |name: &str| sections.get(name);
        // A way that acks and takes in one call only differs from others in that.
        let is_other_way = section("next").is_some();
        let put = || Some(format!("{};\n", section("put")?));
        let mut steps = match work {
            Work::Put if is_other_way => return None,
            Work::Put => Steps { texts: vec![put()?], take: 0 },
            Work::PutMany => Steps { texts: vec![format!("{};\n", section("put many")?)], take: 0 },
            Work::TakeAndAck => Steps::take_and_ack(sections, "")?,
            Work::TakeAndAckMany => Steps::take_and_ack(sections, " many")?,
            Work::Lifecycle => {
                let mut steps = Steps::take_and_ack(sections, "")?;
                steps.texts.insert(0, put()?);
                steps.take += 1;
                steps
            }
        };
        if let (Some(begin), Some(first)) = (section("begin"), steps.texts.first_mut()) {
            *first = format!("{begin}\n{first}");
        }
        let tube = section("of a tube").unwrap_or_default();
        for text in &mut steps.texts {
            *text = text.replace("{many}", &MANY.to_string()).replace("{tube}", tube);
        }
        Some(steps)
    }

    fn take_and_ack(sections: &Sections, many: &str) -> Option<Steps> {
        let section = |name| sections.get(&format!("{name}{many}"));
        if let Some(own) = section("take and ack") {
            return Some(Steps { texts: vec![format!("{own}\n")], take: 0 });
        }
        if let (Some(first), Some(next)) = (section("first"), section("next")) {
            let text = format!(
                "\\if :started\n{next} \\gset\n\\else\n{first} \\gset\n\\set started 1\n\\endif\n"
            );
            return Some(Steps { texts: vec![text], take: 0 });
        }
        let texts =
            vec![format!("{} \\gset\n", section("take")?), format!("{};\n", section("ack")?)];
        Some(Steps { texts, take: 0 })
    }

    pub fn count(&self) -> usize {
        self.texts.len()
    }

    /// Returns all steps, one after the other.
    pub fn script(&self) -> String {
        self.texts.concat()
    }

    /// Returns a script that runs one step each time, in turn, so that pgbench logs the latency of each. The variable
    /// `step` starts at 0.
    pub fn one_at_a_time(&self) -> String {
        if let [only] = &self.texts[..] {
            return only.clone();
        }
        let mut script = String::new();
        for (step, text) in self.texts.iter().enumerate() {
            let (keyword, next) = (["elif", "if"][usize::from(step == 0)], step + 1);
            let next = next % self.count();
            script += &format!("\\{keyword} :step = {step}\n{text}\\set step {next}\n");
        }
        script + "\\endif\n"
    }

    /// Returns true if the client's transaction number `place`, counted from 0, was a take.
    pub fn is_take(&self, place: u64) -> bool {
        place % self.count() as u64 == self.take as u64
    }
}

/// Returns a script that takes and acks a task, or sleeps if there is no task.
pub fn take_and_ack_if_any(sections: &Sections) -> Option<String> {
    let (take, ack) = (sections.get("take")?.replace("{tube}", ""), sections.get("ack")?);
    let found =
        format!("WITH taken AS ({take}) SELECT count(id) AS found, max(id::text) AS id FROM taken");
    let found = sections.get("take if any").unwrap_or(&found);
    Some(format!("{found} \\gset\n\\if :found > 0\n{ack};\n\\else\n\\sleep 5 ms\n\\endif\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLS: &str = "-- put --\nP\n-- take --\nT{tube}\n-- ack --\nA\n-- begin --\n\\set tube 7\n\
                         -- of a tube --\n, :tube\n";

    fn steps(text: &str, work: Work) -> Option<Steps> {
        Steps::of(&Sections::parse(&[text]), work)
    }

    #[test]
    fn a_lifecycle_has_three_steps_and_the_second_is_the_take() {
        let steps = steps(CALLS, Work::Lifecycle).expect("a lifecycle");
        assert_eq!(steps.script(), "\\set tube 7\nP;\nT, :tube \\gset\nA;\n");
        assert_eq!(
            steps.one_at_a_time(),
            "\\if :step = 0\n\\set tube 7\nP;\n\\set step 1\n\
             \\elif :step = 1\nT, :tube \\gset\n\\set step 2\n\
             \\elif :step = 2\nA;\n\\set step 0\n\\endif\n"
        );
        assert_eq!(
            [0, 1, 2, 3, 4].map(|place| steps.is_take(place)),
            [false, true, false, false, true]
        );
    }

    #[test]
    fn a_way_that_acks_and_takes_in_one_has_no_put_of_its_own() {
        let text = "-- put --\nP\n-- first --\nF\n-- next --\nN\n";
        assert!(steps(text, Work::Put).is_none());
        let steps = steps(text, Work::TakeAndAck).expect("take and ack");
        let script = "\\if :started\nN \\gset\n\\else\nF \\gset\n\\set started 1\n\\endif\n";
        assert_eq!(steps.one_at_a_time(), script);
        assert!(steps.is_take(5));
    }

    #[test]
    fn what_a_peer_lacks_it_does_not_do() {
        assert!(steps("-- put --\nP\n", Work::Lifecycle).is_none());
        assert!(steps(CALLS, Work::TakeAndAckMany).is_none());
    }
}
