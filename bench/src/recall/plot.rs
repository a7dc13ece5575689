//! The plot of the report: latency over the size of a space, and over what is asked of one.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::result::{Closed, Outcome, Over, SetResult};
use super::sets::{Mode, Shape};

const SIZE: (u32, u32) = (1_000, 760);
const COLOURS: [(Mode, RGBColor); 2] =
    [(Mode::Composite, RGBColor(0, 90, 181)), (Mode::Vector, RGBColor(230, 140, 20))];
/// What a panel is over, its title and the name of its axis.
const OVER: [(Option<Over>, &str, &str); 4] = [
    (None, "Over the size of the space", "memories"),
    (Some(Over::TopK), "Over the hits asked for", "top_k"),
    (Some(Over::PerMille), "Over the share that passes a filter", "memories in 1,000"),
    (Some(Over::Clients), "Over the number of clients", "clients"),
];

type Points = Vec<(f64, f64)>;

/// Draws the plot into an SVG file.
///
/// # Errors
/// The file cannot be written.
pub(super) fn draw(outcome: &Outcome, path: &Path) -> Result<()> {
    panels(outcome, path).map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
}

/// What is varied, and the median in milliseconds.
fn points(sets: &[SetResult], mode: Mode, over: Option<Over>) -> Points {
    let point = |at: usize, closed: &Closed| (at as f64, (closed.latency.p50_us as f64 / 1e3).max(1e-3));
    let mut points: Points = match over {
        Some(over) => {
            let curves = sets.iter().flat_map(|set| &set.curves);
            let curves = curves.filter(|curve| curve.mode == mode && curve.over == over);
            curves.flat_map(|curve| &curve.points).map(|at| point(at.at, &at.closed)).collect()
        }
        None => sets
            .iter()
            .filter(|set| matches!(set.shape, Shape::One { .. }))
            .filter_map(|set| {
                let arm = set.arms.iter().find(|arm| arm.mode == mode)?;
                Some(point(set.memories, arm.closed.first()?))
            })
            .collect(),
    };
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn panels(outcome: &Outcome, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let area = area.titled("Median recall through REST", ("sans-serif", 18))?;
    for (panel, (over, title, axis)) in area.split_evenly((2, 2)).iter().zip(OVER) {
        let series = COLOURS.map(|(mode, colour)| (mode, colour, points(&outcome.sets, mode, over)));
        draw_panel(panel, (title, axis), series)?;
    }
    area.present()?;
    Ok(())
}

fn draw_panel(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    (title, axis): (&str, &str),
    series: [(Mode, RGBColor, Points); 2],
) -> Result<(), Box<dyn std::error::Error>> {
    let all: Points = series.iter().flat_map(|(.., points)| points).copied().collect();
    let bounds = |of: fn(&(f64, f64)) -> f64| {
        let low = all.iter().map(of).fold(f64::INFINITY, f64::min);
        let high = all.iter().map(of).fold(0.0, f64::max);
        if all.is_empty() { 0.1..10.0 } else { low / 2.0..high * 2.0 }
    };
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 16))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(bounds(|point| point.0).log_scale(), bounds(|point| point.1).log_scale())?;
    chart
        .configure_mesh()
        .x_desc(axis)
        .y_desc("ms")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.2}"))
        .label_style(("sans-serif", 13))
        .light_line_style(WHITE)
        .draw()?;
    for (mode, colour, points) in series {
        chart
            .draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?
            .label(mode.name())
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 22, y)], colour.stroke_width(2)));
        chart.draw_series(points.into_iter().map(|point| Circle::new(point, 3, colour.filled())))?;
    }
    chart.configure_series_labels().label_font(("sans-serif", 14)).border_style(BLACK.mix(0.3)).draw()?;
    Ok(())
}
