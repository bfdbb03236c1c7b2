//! Plots: panels of series, the measured ones in full lines and the paper's in open marks.

use plotters::coord::combinators::IntoLogRange;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const WIDTH: u32 = 900;
const HEIGHT: u32 = 420;
const TITLE: u32 = 40;
/// Readable on white, and distinguishable with red-green colour blindness.
const COLORS: [RGBColor; 6] = [
    RGBColor(0, 90, 160),
    RGBColor(200, 80, 0),
    RGBColor(0, 120, 90),
    RGBColor(130, 60, 130),
    RGBColor(90, 90, 90),
    RGBColor(80, 170, 230),
];

/// An axis of a panel.
#[derive(Clone, Debug)]
pub struct Axis {
    /// The quantity, with its unit.
    pub label: &'static str,
    /// The range of the axis.
    pub from: f64,
    /// See [`from`](Self::from).
    pub to: f64,
}

/// The origin of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Measured: a line.
    Ours,
    /// Measured: a line with a mark at each point.
    OursMarked,
    /// The paper's: open marks.
    Papers,
}

/// A series of points.
#[derive(Clone, Debug)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The origin.
    pub style: Style,
    /// The number of the colour; series of one colour belong together.
    pub color: usize,
    /// The points.
    pub points: Vec<(f64, f64)>,
}

/// Some series on two axes.
#[derive(Clone, Debug)]
pub struct Panel {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// True, for each axis, if it is logarithmic.
    pub logarithmic: (bool, bool),
    /// The series.
    pub series: Vec<Series>,
}

/// Draws panels, one above the other.
pub(crate) fn svg(title: &str, panels: &[Panel]) -> String {
    let mut text = String::new();
    let size = (WIDTH, TITLE + HEIGHT * panels.len() as u32);
    {
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        // Drawing into a string can fail only by a defect here.
        root.fill(&WHITE).expect("a string takes all");
        let middle = TextStyle::from(("sans-serif", 18)).pos(Pos::new(HPos::Center, VPos::Top));
        root.draw(&Text::new(title.to_owned(), (WIDTH as i32 / 2, 10), middle))
            .expect("a string takes all");
        let (_, rest) = root.split_vertically(TITLE);
        for (panel, area) in panels.iter().zip(rest.split_evenly((panels.len(), 1))) {
            let (x, y) = (panel.x.from..panel.x.to, panel.y.from..panel.y.to);
            match panel.logarithmic {
                (true, true) => draw(panel, &area, x.log_scale(), y.log_scale()),
                (true, false) => draw(panel, &area, x.log_scale(), y),
                (false, true) => draw(panel, &area, x, y.log_scale()),
                (false, false) => draw(panel, &area, x, y),
            }
        }
        root.present().expect("a string takes all");
    }
    text
}

fn draw<X, Y>(panel: &Panel, area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>, x: X, y: Y)
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(64)
        .build_cartesian_2d(x, y)
        .expect("axes that are not empty");
    let number = |value: &f64| {
        let text = format!("{value:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(225, 225, 225))
        .x_desc(panel.x.label)
        .label_style(("sans-serif", 15))
        .axis_desc_style(("sans-serif", 17))
        .y_desc(panel.y.label)
        .x_label_formatter(&number)
        .y_label_formatter(&number)
        .draw()
        .expect("a string takes all");
    for series in &panel.series {
        let color = COLORS[series.color % COLORS.len()];
        let (line, mark) = (color.stroke_width(2), color.stroke_width(2));
        let points = series.points.iter().copied();
        let drawn = match series.style {
            Style::Ours => chart.draw_series(LineSeries::new(points, line)),
            Style::OursMarked => {
                chart.draw_series(LineSeries::new(points, line.filled()).point_size(4))
            }
            Style::Papers => {
                let marks = points.map(|point| TriangleMarker::new(point, 7, mark).into_dyn());
                chart.draw_series(marks)
            }
        };
        let drawn = drawn.expect("a string takes all").label(series.name.clone());
        match series.style {
            Style::Papers => {
                drawn.legend(move |(x, y)| TriangleMarker::new((x + 10, y), 7, mark).into_dyn())
            }
            _ => drawn
                .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 20, y)], line).into_dyn()),
        };
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(160, 160, 160))
        .label_font(("sans-serif", 15))
        .draw()
        .expect("a string takes all");
}
