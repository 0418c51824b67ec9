//! Plots in SVG.

use crate::peer::{HAND, ROWS};

const WIDTH: f64 = 900.0;
/// The first colour is for SQL written by hand, the next five are for xqueue.
const COLOURS: [&str; 13] = [
    "#888888", "#1f6fb4", "#5aa0d8", "#0b3d66", "#93c4ea", "#2f8f9d", "#d97a1f", "#5b9a3c",
    "#b23b3b", "#7d5aa6", "#8a6d3b", "#d94f9c", "#333333",
];

pub enum Plot {
    Bars(Bars),
    Lines(Lines),
    /// Panels below each other, each with its title.
    Panels(Vec<(String, Lines)>),
}

/// Bars in groups. The longest bar fills the width.
pub struct Bars {
    pub unit: &'static str,
    pub groups: Vec<(String, Vec<(String, f64)>)>,
}

/// A line for each name, a point for each label.
pub struct Lines {
    pub unit: &'static str,
    pub labels: Vec<String>,
    pub lines: Vec<(String, Vec<f64>)>,
}

impl Plot {
    pub fn svg(&self, title: &str) -> String {
        let (height, content) = match self {
            Plot::Bars(bars) => bars.draw(),
            Plot::Lines(lines) => lines.draw(),
            Plot::Panels(panels) => stack(panels),
        };
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
             font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        text(&mut svg, 16.0, 26.0, "font-size=\"17\"", title);
        svg + &content + "</svg>\n"
    }
}

impl Bars {
    fn draw(&self) -> (f64, String) {
        const NAMES: f64 = 180.0;
        const BAR: f64 = 20.0;
        let values = self.groups.iter().flat_map(|(_, bars)| bars.iter().map(|(_, value)| *value));
        let scale = (WIDTH - NAMES - 90.0) / values.fold(1.0, f64::max);
        let (mut svg, mut y) = (String::new(), 56.0);
        for (group, bars) in &self.groups {
            text(&mut svg, 16.0, y, "font-weight=\"bold\"", &format!("{group}: {}", self.unit));
            y += 10.0;
            for ((name, value), colour) in bars.iter().zip(COLOURS.iter().cycle()) {
                let (width, height, baseline) = (value * scale, BAR - 4.0, y + 13.0);
                text(&mut svg, 16.0, baseline, "", &public_name(name));
                shape(
                    &mut svg,
                    format_args!(
                        "<rect x=\"{NAMES}\" y=\"{y}\" width=\"{width:.1}\" height=\"{height}\" fill=\"{colour}\"/>"
                    ),
                );
                text(&mut svg, NAMES + width + 6.0, baseline, "", &format!("{value:.0}"));
                y += BAR;
            }
            y += 30.0;
        }
        (y, svg)
    }
}

impl Lines {
    fn draw(&self) -> (f64, String) {
        const LEFT: f64 = 80.0;
        const RIGHT: f64 = 200.0;
        const TOP: f64 = 60.0;
        const HEIGHT: f64 = 360.0;
        const MOST_STEPS: f64 = 5.0;
        const MOST_LABELS: f64 = 12.0;
        let bottom = TOP + HEIGHT;
        let largest = self.lines.iter().flat_map(|(_, values)| values).copied().fold(1.0, f64::max);
        let x =
            |n: usize| LEFT + n as f64 * (WIDTH - LEFT - RIGHT) / self.labels.len().max(1) as f64;
        let step = round_up(largest / MOST_STEPS);
        let steps = (largest / step).ceil();
        let y = |value: f64| bottom - value * HEIGHT / (step * steps);
        let mut svg = String::new();
        text(&mut svg, 16.0, 46.0, "", self.unit);
        for number in 0..=steps as u32 {
            let (value, right) = (step * f64::from(number), WIDTH - RIGHT);
            shape(
                &mut svg,
                format_args!(
                    "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{0:.1}\" y2=\"{0:.1}\" stroke=\"#dddddd\"/>",
                    y(value)
                ),
            );
            text(&mut svg, 16.0, y(value) + 4.0, "", &grouped(value));
        }
        // As many labels as fit.
        let distance = round_up(self.labels.len() as f64 / MOST_LABELS) as usize;
        for (n, label) in (1..).zip(&self.labels).skip(distance - 1).step_by(distance) {
            text(&mut svg, x(n) - 10.0, bottom + 20.0, "", label);
        }
        let colours = COLOURS.iter().cycle();
        for (place, ((name, values), colour)) in self.lines.iter().zip(colours).enumerate() {
            let points =
                (1..).zip(values).map(|(n, value)| format!("{:.1},{:.1}", x(n), y(*value)));
            let points = points.collect::<Vec<_>>().join(" ");
            shape(
                &mut svg,
                format_args!(
                    "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.5\"/>"
                ),
            );
            let style = format!("fill=\"{colour}\"");
            let (left, baseline) = (WIDTH - RIGHT + 16.0, TOP + 8.0 + 20.0 * place as f64);
            text(&mut svg, left, baseline, &style, &public_name(name));
        }
        (bottom + 40.0, svg)
    }
}

fn stack(panels: &[(String, Lines)]) -> (f64, String) {
    const TITLE: f64 = 24.0;
    let (mut svg, mut top) = (String::new(), TITLE);
    for (title, lines) in panels {
        let (height, content) = lines.draw();
        shape(&mut svg, format_args!("<g transform=\"translate(0,{top})\">"));
        text(&mut svg, 16.0, 26.0, "font-weight=\"bold\"", title);
        svg += &content;
        svg += "</g>\n";
        top += height;
    }
    (top, svg)
}

/// Returns the least of 1, 2, 5, 10, 20, … that is not less than `value`.
fn round_up(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(1.0).log10().floor());
    let round = [1.0, 2.0, 5.0].map(|factor| factor * power);
    round.into_iter().find(|round| *round >= value).unwrap_or(10.0 * power)
}

/// Formats a whole number with commas: 1,000.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// Returns the name of a contender for readers who do not know the names of our files.
fn public_name(name: &str) -> String {
    match name {
        HAND => "hand-written SQL".to_owned(),
        ROWS => "xqueue".to_owned(),
        name => name.replacen("xqueue-", "xqueue, ", 1),
    }
}

fn text(svg: &mut String, x: f64, y: f64, style: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    shape(svg, format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{text}</text>"));
}

fn shape(svg: &mut String, element: std::fmt::Arguments) {
    *svg += &format!("{element}\n");
}

#[cfg(test)]
mod tests {
    use super::{Bars, Lines, Plot};

    #[test]
    fn the_longest_bar_fills_the_page_and_names_are_escaped() {
        let bars = vec![("a < b".to_owned(), 50.0), ("c".to_owned(), 100.0)];
        let plot = Plot::Bars(Bars { unit: "per second", groups: vec![("all".into(), bars)] });
        let svg = plot.svg("T & t");
        assert!(svg.contains("T &amp; t") && svg.contains("a &lt; b"));
        assert!(svg.contains("width=\"315.0\"") && svg.contains("width=\"630.0\""));
    }

    #[test]
    fn of_many_labels_some_are_drawn() {
        let labels: Vec<_> = (1..=360).map(|n| format!("{n}0 s")).collect();
        let lines = vec![("ours".to_owned(), vec![1.0; 360])];
        let plot = Plot::Lines(Lines { unit: "per second", labels, lines });
        let svg = plot.svg("T");
        assert!(svg.contains(">500 s<") && svg.contains(">3500 s<") && !svg.contains(">510 s<"));
    }

    #[test]
    fn axes_have_round_numbers_and_lines_public_names() {
        let names = ["hand-written", "xqueue-rows", "xqueue-done", "pgmq"];
        let lines = names.map(|name| (name.to_owned(), vec![13_823.0]));
        let labels = vec!["10 s".to_owned()];
        let plot = Plot::Lines(Lines { unit: "per second", labels, lines: lines.into() });
        let svg = plot.svg("T");
        let texts = ["0", "5,000", "10,000", "15,000", "10 s"];
        let names = ["hand-written SQL", "xqueue", "xqueue, done", "pgmq"];
        for text in texts.iter().chain(&names) {
            assert!(svg.contains(&format!(">{text}</text>")), "{text}");
        }
        assert_eq!(svg.matches("<line ").count(), 4);
    }
}
