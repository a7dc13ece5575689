//! The plot of the report: latency over the size of a space.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::result::{Outcome, SetResult};
use super::sets::{Mode, Shape};

const SIZE: (u32, u32) = (800, 460);
const COLOURS: [(Mode, RGBColor); 2] =
    [(Mode::Composite, RGBColor(0, 90, 181)), (Mode::Vector, RGBColor(230, 140, 20))];

/// Draws the plot into an SVG file.
///
/// # Errors
/// The file cannot be written.
pub(super) fn draw(outcome: &Outcome, path: &Path) -> Result<()> {
    curves(outcome, path).map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
}

/// Memories, and the latency of one client's median question in milliseconds.
fn points(sets: &[SetResult], mode: Mode) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> = sets
        .iter()
        .filter(|set| matches!(set.shape, Shape::One { .. }))
        .filter_map(|set| {
            let arm = set.arms.iter().find(|arm| arm.mode == mode)?;
            let median = arm.closed.first()?.latency.p50_us;
            Some((set.memories as f64, (median as f64 / 1e3).max(1e-3)))
        })
        .collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

fn curves(outcome: &Outcome, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let all: Vec<(f64, f64)> = COLOURS.iter().flat_map(|(mode, _)| points(&outcome.sets, *mode)).collect();
    let bounds = |of: fn(&(f64, f64)) -> f64| {
        let low = all.iter().map(of).fold(f64::INFINITY, f64::min);
        let high = all.iter().map(of).fold(0.0, f64::max);
        if all.is_empty() { 0.1..10.0 } else { low / 2.0..high * 2.0 }
    };
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption("Median recall through REST, one client", ("sans-serif", 18))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(60)
        .build_cartesian_2d(bounds(|point| point.0).log_scale(), bounds(|point| point.1).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("memories of the space")
        .y_desc("ms")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.2}"))
        .label_style(("sans-serif", 14))
        .light_line_style(WHITE)
        .draw()?;
    for (mode, colour) in COLOURS {
        let points = points(&outcome.sets, mode);
        chart
            .draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?
            .label(mode.name())
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 22, y)], colour.stroke_width(2)));
        chart.draw_series(points.into_iter().map(|point| Circle::new(point, 3, colour.filled())))?;
    }
    chart.configure_series_labels().label_font(("sans-serif", 15)).border_style(BLACK.mix(0.3)).draw()?;
    area.present()?;
    Ok(())
}
