//! The result for people: a summary and the page of the guide.

use std::fmt::Write as _;

use super::arm::Measured;
use super::failover::Failover;
use super::result::{Checked, Load, Outcome, Setup, middle};
use super::texts::Kind;

const HEADER: [&str; 9] = [
    "clients",
    "",
    "writes/s",
    "of the rounds",
    "p50, ms",
    "p99, ms",
    "CPU of all servers, ms a write",
    "of it the router",
    "errors",
];

/// The figures as text.
pub(super) fn summary(outcome: &Outcome) -> String {
    let mut text = table(&outcome.loads);
    text += &ratios(&outcome.loads);
    text += &failover(outcome.failover.as_ref());
    text += &checked(&outcome.checked);
    if outcome.setup.debug_build {
        text += "Built with debug assertions: not for comparison.\n";
    }
    text
}

/// The page.
pub(super) fn markdown(outcome: &Outcome) -> String {
    let mut text = String::from(
        "# The cluster benchmark\n\n\
         `holdfast bench cluster` writes this page; do not edit it. It measures durable writes through the REST \
         interface of a whole cluster of processes, and beside it etcd, the best known replicated store of small \
         values, as a yardstick. The two do not do the same: etcd stores a value under a key; Holdfast also analyses \
         the text, indexes it and keeps an idempotency row, and takes the write as JSON through a router, one hop \
         more.\n\n",
    );
    text += &table(&outcome.loads);
    text.push('\n');
    text += &ratios(&outcome.loads);
    text += "\n## When a leader dies\n\n";
    text += &failover(outcome.failover.as_ref());
    text += "\n## What was checked\n\n";
    text += &checked(&outcome.checked);
    text += &how(outcome);
    text
}

fn table(loads: &[Load]) -> String {
    let mut text = format!(
        "| {} |\n| ---: | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |\n",
        HEADER.join(" | ")
    );
    for load in loads {
        for (name, rounds) in [("Holdfast", &load.holdfast), ("etcd", &load.etcd)] {
            if rounds.is_empty() {
                continue;
            }
            let of = |figure: &dyn Fn(&Measured) -> f64| middle(rounds, figure).unwrap_or_default();
            let each: Vec<String> = rounds.iter().map(|round| format!("{:.0}", round.writes_per_s)).collect();
            let errors: u64 = rounds.iter().flat_map(|round| round.errors.values()).sum();
            let router = match name {
                "etcd" => "-".to_owned(),
                _ => format!("{:.3}", of(&|round| round.router_cpu_ms_per_write)),
            };
            // Writing into a string cannot fail.
            let _ = writeln!(
                text,
                "| {} | {name} | {:.0} | {} | {:.2} | {:.2} | {:.3} | {router} | {errors} |",
                load.clients,
                of(&|round| round.writes_per_s),
                each.join(", "),
                of(&|round| round.p50_us as f64 / 1e3),
                of(&|round| round.p99_us as f64 / 1e3),
                of(&|round| round.cpu_ms_per_write),
            );
        }
    }
    text
}

fn ratios(loads: &[Load]) -> String {
    let mut text = String::new();
    for load in loads {
        let Some(ratio) = load.ratio() else { continue };
        let p99 = |rounds: &[Measured]| middle(rounds, |round| round.p99_us as f64);
        let tail = match (p99(&load.holdfast), p99(&load.etcd)) {
            (Some(ours), Some(theirs)) if theirs > 0.0 => {
                format!("; its p99 is {:.2} times etcd's", ours / theirs)
            }
            _ => String::new(),
        };
        let _ = writeln!(
            text,
            "- {} {}: Holdfast does {ratio:.2} times the writes of etcd (median of the rounds){tail}.",
            load.clients,
            if load.clients == 1 { "client" } else { "clients" },
        );
    }
    if text.is_empty() {
        text.push_str("There was no etcd in this run.\n");
    }
    text
}

fn failover(failover: Option<&Failover>) -> String {
    let Some(failover) = failover else { return "No leader was killed in this run.\n".to_owned() };
    let each: Vec<String> = failover.seconds.iter().map(|seconds| format!("{seconds:.2}")).collect();
    format!(
        "The node that led most shards was killed with SIGKILL {} times while {} clients wrote, each to one user. The \
         longest time that any of them waited for an acknowledgement, counted from the kill: median {:.2} s, worst \
         {:.2} s; {} writes were answered with an error. All rounds, in seconds: {}.\n",
        failover.seconds.len(),
        super::failover::CLIENTS,
        failover.median_s,
        failover.worst_s,
        failover.errors,
        each.join(", "),
    )
}

fn checked(checked: &Checked) -> String {
    let Checked { acknowledged, read_back, lost, replicas_equal, etcd } = checked;
    let mut text = format!(
        "Holdfast acknowledged {acknowledged} writes; {read_back} of them were read back at the end, and {lost} were \
         not there as written. All replicas {} the same rows.",
        if *replicas_equal { "held" } else { "did NOT hold" },
    );
    if let Some((acknowledged, keys)) = etcd {
        let _ = write!(text, " etcd acknowledged {acknowledged} writes and had {keys} keys.");
    }
    text.push('\n');
    text
}

fn how(outcome: &Outcome) -> String {
    let Setup { day, cores, processor, kernel, debug_build, shards, content_bytes, users, seconds, .. } =
        &outcome.setup;
    let Setup { contents, warm_up_seconds, rounds, etcd, sync_us, .. } = &outcome.setup;
    let contents = match contents {
        Kind::Prose => {
            "ordinary English and Chinese sentences, some 480 tokens, stored as one memory each (with `--contents \
             statements`: made-up ones with more names and numbers, which are above the 512 tokens from which on a \
             text is stored whole and in chunks, here two)"
        }
        Kind::Statements => {
            "made-up English and Chinese statements, some 540 tokens, which is above the 512 from which on a text is \
             stored whole and in chunks, here two"
        }
    };
    let mut text = String::from("\n## How it was measured\n\n");
    let _ = writeln!(
        text,
        "- Three nodes with {shards} shards and one router, each a process of its own with its default settings, \
         durable, on one machine and one disk. Contents of {content_bytes} bytes of {contents}, no two alike, without \
         vectors, `infer: none`, spread over {users} users."
    );
    if let Some(etcd) = etcd {
        let _ = writeln!(
            text,
            "- etcd {etcd}, three members with their default settings on the same disk, the same contents as values. \
             Its clients speak gRPC to the leader itself, which spares it the forwarding."
        );
    }
    let _ = writeln!(
        text,
        "- Each client has a connection of its own and sends one write after the other. {rounds} rounds of {seconds} s \
         after {warm_up_seconds} s of warm-up; within a round the two are measured one after the other, in changing \
         order, while the other idles. The table shows medians of the rounds. The clients run on the same machine: \
         their processor time is not in the figures, but it is taken from the same cores."
    );
    let _ = writeln!(
        text,
        "- {} on {cores} cores ({}), kernel {}; a write of {content_bytes} bytes with its sync takes {:.2} ms on this \
         disk (median).{}",
        day,
        processor.as_deref().unwrap_or("unknown processor"),
        kernel.as_deref().unwrap_or("unknown"),
        *sync_us as f64 / 1e3,
        if *debug_build { " **A debug build: not for comparison.**" } else { "" },
    );
    let _ = writeln!(text, "- Holdfast {}. The command:\n", outcome.version);
    let _ = writeln!(text, "```text\n{}\n```", outcome.command);
    text += IDLE;
    text
}

const IDLE: &str = "\n## At rest\n\n\
    What 256 groups cost that do nothing is measured by:\n\n\
    ```text\nholdfast bench idle --groups 256\n```\n";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn measured(writes_per_s: f64, p99_us: u64) -> Measured {
        Measured {
            writes: 100,
            seconds: 1.0,
            writes_per_s,
            p50_us: 900,
            p99_us,
            max_us: p99_us,
            cpu_ms_per_write: 0.4,
            router_cpu_ms_per_write: 0.15,
            errors: BTreeMap::from([("unavailable".to_owned(), 1)]),
        }
    }

    fn outcome(etcd: bool) -> Outcome {
        let load = Load {
            clients: 16,
            holdfast: vec![measured(3_000.0, 9_000), measured(2_000.0, 5_000), measured(2_500.0, 6_000)],
            etcd: if etcd { vec![measured(1_000.0, 8_000); 3] } else { Vec::new() },
        };
        Outcome {
            version: "1.2.3".to_owned(),
            command: "holdfast bench cluster --rounds 3".to_owned(),
            setup: Setup {
                day: "2026-01-02".to_owned(),
                cores: 2,
                processor: None,
                kernel: None,
                debug_build: true,
                shards: 64,
                content_bytes: 2_048,
                contents: Kind::Statements,
                users: 1_000,
                seconds: 10.0,
                warm_up_seconds: 2.0,
                rounds: 3,
                etcd: etcd.then(|| "3.4".to_owned()),
                sync_us: 120,
            },
            loads: vec![load],
            failover: Some(Failover { seconds: vec![1.0, 2.5], median_s: 1.75, worst_s: 2.5, errors: 0 }),
            checked: Checked {
                acknowledged: 7_500,
                read_back: 7_500,
                replicas_equal: true,
                ..Checked::default()
            },
        }
    }

    #[test]
    fn the_page_says_what_was_found_and_what_is_missing() {
        let page = markdown(&outcome(true));
        for needed in [
            "| 16 | Holdfast | 2500 | 3000, 2000, 2500 | 0.90 | 6.00 | 0.400 | 0.150 | 3 |",
            "| 16 | etcd | 1000 |",
            "2.50 times the writes of etcd",
            "p99 is 0.75 times etcd's",
            "median 1.75 s, worst 2.50 s",
            "7500 of them were read back",
            "debug build",
            "holdfast bench cluster --rounds 3",
        ] {
            assert!(page.contains(needed), "{needed} is not in:\n{page}");
        }
        let without = markdown(&outcome(false));
        assert!(without.contains("There was no etcd") && !without.contains("| etcd |"));
    }
}
