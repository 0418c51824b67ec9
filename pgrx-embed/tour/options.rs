//! The command line.

pub const HELP: &str = "\
tour [--test] [--files N] [--consumers N] [--kills N]

Runs real work through a queue, in the database that PGHOST, PGPORT, PGUSER and PGDATABASE name
and that has the extension xqueue. Creates the schema tour again, and leaves it to you.
Exits with 0 if all was well.

  --files N      files to digest (default 10000)
  --consumers N  processes that digest (default 4)
  --kills N      how many of them are killed, and replaced, in the middle (default 5)
  --test         larger (30000, 8, 20), without progress bar, ends with \"1 passed, 0 failed\"";

pub enum Command {
    Tour(Options),
    Consumer(String),
    Help,
}

pub struct Options {
    pub files: usize,
    pub consumers: usize,
    pub kills: usize,
    pub test: bool,
}

pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Command, String> {
    let (mut files, mut consumers, mut kills, mut test) = (None, None, None, false);
    while let Some(argument) = arguments.next() {
        let mut number = |least: usize| {
            let value = arguments.next().and_then(|value| value.parse().ok());
            value
                .filter(|value| *value >= least)
                .ok_or(format!("{argument} takes a number, {least} or more"))
        };
        match argument.as_str() {
            "--files" => files = Some(number(1)?),
            "--consumers" => consumers = Some(number(1)?),
            "--kills" => kills = Some(number(0)?),
            "--test" => test = true,
            "--help" | "-h" => return Ok(Command::Help),
            "consumer" => return Ok(Command::Consumer(arguments.next().unwrap_or_default())),
            _ => return Err(format!("what is {argument}?")),
        }
    }
    let default = if test { [30_000, 8, 20] } else { [10_000, 4, 5] };
    Ok(Command::Tour(Options {
        files: files.unwrap_or(default[0]),
        consumers: consumers.unwrap_or(default[1]),
        kills: kills.unwrap_or(default[2]),
        test,
    }))
}
