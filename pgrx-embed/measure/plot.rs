//! Plots in SVG.

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
                text(&mut svg, 16.0, baseline, "", name);
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
        const MOST_LABELS: usize = 12;
        let bottom = TOP + HEIGHT;
        let largest = self.lines.iter().flat_map(|(_, values)| values).copied().fold(1.0, f64::max);
        let x =
            |n: usize| LEFT + n as f64 * (WIDTH - LEFT - RIGHT) / self.labels.len().max(1) as f64;
        let y = |value: f64| bottom - value * HEIGHT / largest;
        let mut svg = String::new();
        text(&mut svg, 16.0, 46.0, "", self.unit);
        for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
            let (value, right) = (largest * share, WIDTH - RIGHT);
            shape(
                &mut svg,
                format_args!(
                    "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{0:.1}\" y2=\"{0:.1}\" stroke=\"#dddddd\"/>",
                    y(value)
                ),
            );
            text(&mut svg, 16.0, y(value) + 4.0, "", &format!("{value:.0}"));
        }
        // As many labels as fit.
        let distance = self.labels.len().div_ceil(MOST_LABELS).max(1);
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
            text(&mut svg, WIDTH - RIGHT + 16.0, TOP + 8.0 + 20.0 * place as f64, &style, name);
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
        assert!(svg.contains(">300 s<") && svg.contains(">3600 s<") && !svg.contains(">310 s<"));
    }
}
