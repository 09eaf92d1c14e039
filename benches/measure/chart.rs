//! A chart of horizontal bars, as SVG.
use crate::Result;
use plotters::coord::ranged1d::SegmentValue;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// One case: the shares of the memory's speed that two sides reach.
pub struct Bar {
    pub label: String,
    pub ours: f64,
    pub theirs: Option<f64>,
}

/// A chart of shares of one speed.
pub struct Chart<'a> {
    pub title: &'a str,
    /// The name of the second bars, which lie below the first; only for bars with two values.
    pub other: &'a str,
    pub bars: &'a [Bar],
    /// Vertical lines: a name and a share.
    pub marks: &'a [(String, f64)],
}

const OURS: RGBColor = RGBColor(176, 58, 46);
const THEIRS: RGBColor = RGBColor(133, 146, 158);
const WIDTH: u32 = 900;
const ROW: u32 = 26;
/// The right end of the scale, at least. Bars beyond twice the copy's speed are cut; their number is the whole value.
const LEAST: f64 = 1.2;
const MOST: f64 = 2.0;

impl Chart<'_> {
    /// The chart as the contents of a file.
    pub fn svg(&self) -> Result<String> {
        let mut text = String::new();
        let rows = self.bars.len().max(1);
        let root = SVGBackend::with_string(&mut text, (WIDTH, ROW * rows as u32 + 112)).into_drawing_area();
        self.draw(&root, rows).map_err(|error| format!("cannot draw the chart: {error}"))?;
        drop(root);
        Ok(text)
    }

    fn draw<'b>(
        &self,
        root: &DrawingArea<SVGBackend<'b>, plotters::coord::Shift>,
        rows: usize,
    ) -> std::result::Result<(), DrawingAreaErrorKind<<SVGBackend<'b> as DrawingBackend>::ErrorType>> {
        let font = ("sans-serif", 12).into_font();
        root.fill(&WHITE)?;
        root.draw_text(self.title, &("sans-serif", 15).into_text_style(root), (12, 10))?;
        if self.bars.iter().any(|bar| bar.theirs.is_some()) {
            let legend = format!("upper bar: the launcher; lower bar: {}, same run", self.other);
            root.draw_text(&legend, &font.clone().into_text_style(root), (12, 34))?;
        }
        let values = self.bars.iter().flat_map(|bar| [bar.ours, bar.theirs.unwrap_or(0.0)]);
        let values = values.chain(self.marks.iter().map(|mark| mark.1)).filter(|value| value.is_finite());
        let most = (values.fold(0.0, f64::max) * 1.1).clamp(LEAST, MOST);
        let mut chart = ChartBuilder::on(root)
            .margin_top(70)
            .margin_right(60)
            .x_label_area_size(30)
            .y_label_area_size(270)
            .build_cartesian_2d(0f64..most, (0..rows - 1).into_segmented())?;
        // The first bar is on top.
        let label = |at: &SegmentValue<usize>| match at {
            SegmentValue::CenterOf(row) => {
                let bar = (rows - 1).checked_sub(*row).and_then(|i| self.bars.get(i));
                bar.map_or(String::new(), |bar| bar.label.clone())
            }
            _ => String::new(),
        };
        chart
            .configure_mesh()
            .disable_y_mesh()
            .x_labels(7)
            .max_light_lines(1)
            .y_labels(rows)
            .y_label_formatter(&label)
            .label_style(font.clone())
            .draw()?;
        let bar = |row: usize, value: f64, color: RGBColor, (above, below): (u32, u32)| {
            let (low, high) = (SegmentValue::Exact(row), SegmentValue::Exact(row + 1));
            let mut bar = Rectangle::new([(0.0, low), (value.clamp(0.0, most), high)], color.filled());
            bar.set_margin(above, below, 0, 0);
            bar
        };
        let anchor = |font: FontDesc<'static>, h| TextStyle::from(font).pos(Pos::new(h, VPos::Center));
        for (i, one) in self.bars.iter().enumerate() {
            let row = rows - 1 - i;
            let numbers = match one.theirs {
                Some(theirs) => {
                    chart.draw_series([bar(row, one.ours, OURS, (3, 13)), bar(row, theirs, THEIRS, (14, 3))])?;
                    format!("{:.2} / {theirs:.2}", one.ours)
                }
                None => {
                    chart.draw_series([bar(row, one.ours, OURS, (4, 4))])?;
                    format!("{:.2}", one.ours)
                }
            };
            let end = one.ours.max(one.theirs.unwrap_or(0.0)).clamp(0.0, most);
            let style = anchor(font.clone(), HPos::Left);
            chart.draw_series([Text::new(format!(" {numbers}"), (end, SegmentValue::CenterOf(row)), style)])?;
        }
        for (name, share) in self.marks.iter().filter(|mark| mark.1 <= most) {
            let (bottom, top) = (SegmentValue::Exact(0), SegmentValue::Exact(rows));
            chart.draw_series([PathElement::new([(*share, bottom), (*share, top.clone())], BLACK)])?;
            let style = TextStyle::from(font.clone()).pos(Pos::new(HPos::Center, VPos::Bottom));
            chart.draw_series([Text::new(name.clone(), (*share, top), style)])?;
        }
        root.present()
    }
}
