//! The plot of the report: what a context holds, over its tokens.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use super::params::{PUBLISHED_FLAT, PUBLISHED_TARGET};
use super::result::{Outcome, Point};

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

const SIZE: (u32, u32) = (1000, 500);
const HOLDFAST: RGBColor = RGBColor(0, 90, 181);
const COSINE: RGBColor = RGBColor(150, 150, 150);
const COSINE_OF_USER: RGBColor = RGBColor(230, 140, 20);
const FLAT: RGBColor = RGBColor(30, 30, 30);
const PUBLISHED: RGBColor = RGBColor(220, 50, 32);

/// Draws the plot into an SVG file.
///
/// # Errors
/// The file cannot be written.
pub fn draw(outcome: &Outcome, path: &Path) -> Result<()> {
    let failed = |error: &dyn std::fmt::Display| anyhow!("cannot draw {}: {error}", path.display());
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    area.fill(&WHITE).map_err(|error| failed(&error))?;
    let (top, legend) = area.split_vertically(430);
    let panels = top.split_evenly((1, 2));
    let recall = Panel {
        title: "Key recall, % (more is better)",
        of_point: |point| point.key_recall,
        flat: outcome.flat.key_recall,
        baseline: PUBLISHED_FLAT.key_recall,
        target: PUBLISHED_TARGET.key_recall,
        top: 100.0,
    };
    let stale = Panel {
        title: "Stale contamination, % (less is better)",
        of_point: |point| point.stale_contamination,
        flat: outcome.flat.stale_contamination,
        baseline: PUBLISHED_FLAT.stale_contamination,
        target: PUBLISHED_TARGET.stale_contamination,
        top: 50.0,
    };
    for (panel, area) in [recall, stale].iter().zip(&panels) {
        panel.draw(outcome, area).map_err(|error| failed(&error))?;
    }
    draw_legend(&legend).map_err(|error| failed(&error))?;
    area.present().map_err(|error| failed(&error))
}

struct Panel {
    title: &'static str,
    of_point: fn(&Point) -> f64,
    flat: f64,
    baseline: f64,
    target: f64,
    top: f64,
}

impl Panel {
    fn draw(&self, outcome: &Outcome, area: &Area<'_>) -> Result<(), Box<dyn std::error::Error>> {
        let right = outcome.flat.tokens_per_session.max(PUBLISHED_FLAT.tokens_per_session) * 1.08;
        let mut chart: Chart<'_, '_> = ChartBuilder::on(area)
            .caption(self.title, ("sans-serif", 18))
            .margin(12)
            .margin_right(20)
            .x_label_area_size(46)
            .y_label_area_size(46)
            .build_cartesian_2d(0.0..right, 0.0..self.top)?;
        chart
            .configure_mesh()
            .x_desc("tokens per session")
            .x_labels(6)
            .y_labels(6)
            .x_label_formatter(&|tokens| format!("{tokens:.0}"))
            .y_label_formatter(&|percent| format!("{percent:.0}"))
            .label_style(("sans-serif", 14))
            .axis_desc_style(("sans-serif", 15))
            .light_line_style(WHITE)
            .draw()?;
        let curves = &outcome.curves;
        for (curve, colour) in [
            (&curves.plain_cosine, COSINE),
            (&curves.plain_cosine_users_turns, COSINE_OF_USER),
            (&curves.holdfast, HOLDFAST),
        ] {
            let points: Vec<(f64, f64)> = curve
                .iter()
                .map(|point| (point.tokens_per_session, 100.0 * (self.of_point)(point)))
                .collect();
            chart.draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?;
            chart.draw_series(points.into_iter().map(|point| Circle::new(point, 3, colour.filled())))?;
        }
        let flat = (outcome.flat.tokens_per_session, 100.0 * self.flat);
        let baseline = (PUBLISHED_FLAT.tokens_per_session, 100.0 * self.baseline);
        let target = (PUBLISHED_TARGET.tokens_per_session, 100.0 * self.target);
        chart.draw_series([Circle::new(flat, 5, FLAT.filled())])?;
        chart.draw_series([Cross::new(baseline, 6, PUBLISHED.stroke_width(2))])?;
        chart.draw_series([TriangleMarker::new(target, 7, PUBLISHED.filled())])?;
        Ok(())
    }
}

fn draw_legend(area: &Area<'_>) -> Result<(), Box<dyn std::error::Error>> {
    let text = |words: &'static str, x: i32, y: i32| Text::new(words, (x, y), ("sans-serif", 15));
    for (words, colour, x) in [
        ("holdfast, budgets 500 to 4,000", HOLDFAST, 60),
        ("plain cosine, user's turns (reference)", COSINE_OF_USER, 350),
        ("plain cosine, all turns (reference)", COSINE, 680),
    ] {
        area.draw(&PathElement::new(vec![(x, 18), (x + 26, 18)], colour.stroke_width(2)))?;
        area.draw(&Circle::new((x + 13, 18), 3, colour.filled()))?;
        area.draw(&text(words, x + 34, 10))?;
    }
    area.draw(&Circle::new((73, 46), 5, FLAT.filled()))?;
    area.draw(&text("flat, measured", 94, 38))?;
    area.draw(&Cross::new((363, 46), 6, PUBLISHED.stroke_width(2)))?;
    area.draw(&text("flat, published", 384, 38))?;
    area.draw(&TriangleMarker::new((693, 46), 7, PUBLISHED.filled()))?;
    area.draw(&text("target, published", 714, 38))?;
    Ok(())
}
