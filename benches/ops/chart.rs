//! A small SVG writer: horizontal bars, relative to the speed of memory.

/// One case: the shares of the memory's speed that two sides reach.
pub struct Bar {
    pub label: String,
    pub ours: f64,
    pub theirs: Option<f64>,
}

const LABELS: f64 = 270.0;
const WIDTH: f64 = 560.0;
const ROW: f64 = 26.0;
const TOP: f64 = 64.0;
/// The right end of the scale. Longer bars are cut there; their number still shows the whole value.
const MOST: f64 = 1.2;

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, content: &str) {
    out.push_str(&format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>\n", escaped(content)));
}

fn rectangle(out: &mut String, y: f64, height: f64, share: f64, class: &str) {
    let width = WIDTH * share.clamp(0.0, MOST) / MOST;
    out.push_str(&format!(
        "<rect class=\"{class}\" x=\"{LABELS:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>\n"
    ));
}

/// The chart as the contents of a file. `other` names the lower bars.
pub fn svg(title: &str, other: &str, bars: &[Bar]) -> String {
    let (width, height) = (LABELS + WIDTH + 60.0, TOP + ROW * bars.len() as f64 + 24.0);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\">\n\
         <style>text {{ font: 12px sans-serif; fill: #222 }} .ours {{ fill: #b03a2e }} .theirs {{ fill: #85929e }} \
         line {{ stroke: #d5d8dc }} .roof {{ stroke: #222; stroke-dasharray: 4 3 }}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    text(&mut out, 12.0, 22.0, "start", title);
    let bottom = height - 20.0;
    for tenth in (0..=12).step_by(2) {
        let share = f64::from(tenth) / 10.0;
        let x = LABELS + WIDTH * share / MOST;
        let class = if tenth == 10 { " class=\"roof\"" } else { "" };
        out.push_str(&format!("<line{class} x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\"/>\n"));
        text(&mut out, x, TOP - 8.0, "middle", &format!("{share:.1}"));
    }
    for (i, bar) in bars.iter().enumerate() {
        let y = TOP + ROW * i as f64 + 4.0;
        text(&mut out, LABELS - 8.0, y + 13.0, "end", &bar.label);
        let numbers = match bar.theirs {
            Some(theirs) => {
                rectangle(&mut out, y, 10.0, bar.ours, "ours");
                rectangle(&mut out, y + 10.0, 8.0, theirs, "theirs");
                format!("{:.2} / {theirs:.2}", bar.ours)
            }
            None => {
                rectangle(&mut out, y, 18.0, bar.ours, "ours");
                format!("{:.2}", bar.ours)
            }
        };
        let end = LABELS + WIDTH * bar.ours.max(bar.theirs.unwrap_or(0.0)).clamp(0.0, MOST) / MOST;
        text(&mut out, end + 6.0, y + 13.0, "start", &numbers);
    }
    if bars.iter().any(|bar| bar.theirs.is_some()) {
        text(&mut out, 12.0, 40.0, "start", &format!("upper bar: the launcher; lower bar: {other}, same run"));
    }
    out + "</svg>\n"
}
