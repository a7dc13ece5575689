//! The result for people: a summary and the page of the guide.

use std::fmt::Write as _;

use super::result::{Arm, Curve, Latency, Outcome, Over, SetResult};
use super::sets::Shape;

/// The figures of one set as text.
pub(super) fn set(set: &SetResult) -> String {
    format!("{}\n{}{}", facts(set), arms(set), curves(set))
}

/// The figures of all sets as text.
pub(super) fn summary(outcome: &Outcome) -> String {
    let mut text: String = outcome.sets.iter().map(set).collect();
    if outcome.setup.debug_build {
        text += "Built with debug assertions: not for comparison.\n";
    }
    text
}

/// The page.
pub(super) fn markdown(outcome: &Outcome, drawing: &str) -> String {
    let mut text = String::from(
        "# The recall benchmark\n\n\
         `holdfast bench recall` writes this page; do not edit it. It measures recalls through the REST interface of a \
         whole cluster of processes: three nodes and a router, on one machine with the client. *vector* asks for the \
         nearest vectors alone, *composite* with the default profile: words, vector, recency and importance. The \
         vectors are given, so that no embedding model is in the figures.\n\n\
         - **closed**: each client asks when its last question is answered; rate, and processor time for an answer.\n\
         - **open**: questions arrive at random at half of the rate that 16 clients reached; the latency counts from \
         the moment that a question was meant to be sent.\n\
         - **recall@10**: the part of the true ten that was answered. For vectors the truth comes from comparing with \
         all of them, for the composite score from the same cluster with exact indices.\n\
         - **cold**: the first question to a space after a restart of the nodes.\n\n",
    );
    let _ = writeln!(text, "![Latency over the size of a space, and over what is asked of one]({drawing})\n");
    for set in &outcome.sets {
        let _ = writeln!(text, "## {}\n\n{}\n\n{}{}", title(set), facts(set), arms(set), curves(set));
    }
    let setup = &outcome.setup;
    let _ = writeln!(
        text,
        "## How it was run\n\n`{}`, version {}, on {}: {} cores, {}, Linux {}.{}",
        outcome.command,
        outcome.version,
        setup.day,
        setup.cores,
        setup.processor.as_deref().unwrap_or("unknown processor"),
        setup.kernel.as_deref().unwrap_or("unknown"),
        if setup.debug_build { " **Built with debug assertions: not for comparison.**" } else { "" },
    );
    text
}

fn title(set: &SetResult) -> String {
    match set.shape {
        Shape::One { memories } => format!("One space of {memories} memories, {} dimensions", set.dims),
        Shape::Users { users, .. } => {
            format!("{users} users with {} memories, {} dimensions", set.memories, set.dims)
        }
    }
}

fn facts(set: &SetResult) -> String {
    let grown = set.grown_bytes_per_memory.map_or_else(String::new, |bytes| {
        format!(" (with the caches and threads of processes that begin to work, {bytes:.0} bytes)")
    });
    let active = set.image_bytes_per_memory.map_or_else(String::new, |bytes| {
        format!(" Each memory of an active space took {bytes:.0} bytes of memory{grown}.")
    });
    format!(
        "{}: stored at {:.0} memories/s; {:.0} bytes a memory on each disk; the three nodes took {:.0} MB before the \
         first question.{active} Cold: {}.",
        title(set),
        set.stored_per_s,
        set.disk_bytes_per_memory,
        set.idle_bytes as f64 / 1e6,
        latency(&set.cold),
    )
}

fn latency(latency: &Latency) -> String {
    format!("p50 {:.2} ms, p99 {:.2} ms", latency.p50_us as f64 / 1e3, latency.p99_us as f64 / 1e3)
}

fn arms(set: &SetResult) -> String {
    let mut text = String::from(
        "| recall | index | recall@10 | bound met | scored | clients | answers/s | p50, ms | p99, ms | CPU router, ms | CPU nodes, ms |\n\
         | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for arm in &set.arms {
        for closed in &arm.closed {
            row(
                &mut text,
                arm,
                &closed.clients.to_string(),
                closed.per_s,
                &closed.latency,
                &format!("{:.3} | {:.3}", closed.router_us / 1e3, closed.nodes_us / 1e3),
            );
        }
        row(&mut text, arm, "open", arm.open.per_s, &arm.open.latency, " | ");
    }
    let failed: u64 = set
        .arms
        .iter()
        .map(|arm| arm.open.failed + arm.open.not_sent + arm.closed.iter().map(|c| c.failed).sum::<u64>())
        .sum();
    if failed > 0 {
        let _ = writeln!(text, "\n{failed} questions failed or were not sent.");
    }
    text
}

fn curves(set: &SetResult) -> String {
    let mut text = String::new();
    for Curve { mode, over, points } in &set.curves {
        let over = match over {
            Over::TopK => "top_k",
            Over::PerMille => "memories in 1,000 that pass the filter",
            Over::Clients => "clients",
        };
        let _ = writeln!(
            text,
            "\n{}, over {over}:\n\n| {over} | answers/s | p50, ms | p99, ms | CPU router, ms | CPU nodes, ms |\n\
             | ---: | ---: | ---: | ---: | ---: | ---: |",
            mode.name()
        );
        for point in points {
            let closed = &point.closed;
            let _ = writeln!(
                text,
                "| {} | {:.0} | {:.2} | {:.2} | {:.3} | {:.3} |",
                point.at,
                closed.per_s,
                closed.latency.p50_us as f64 / 1e3,
                closed.latency.p99_us as f64 / 1e3,
                closed.router_us / 1e3,
                closed.nodes_us / 1e3,
            );
        }
    }
    text
}

fn row(text: &mut String, arm: &Arm, clients: &str, per_s: f64, latency: &Latency, cpu: &str) {
    let recall = match arm.recall_at_10 {
        Some(recall) => format!("{recall:.4}"),
        None => "exact".to_owned(),
    };
    let _ = writeln!(
        text,
        "| {} | {} | {recall} | {:.0} % | {:.0} | {clients} | {per_s:.0} | {:.2} | {:.2} | {cpu} |",
        arm.mode.name(),
        arm.indices.join(", "),
        100.0 * arm.bound_met,
        arm.scored,
        latency.p50_us as f64 / 1e3,
        latency.p99_us as f64 / 1e3,
    );
}
