//! As much of Markdown as the documents use: fenced blocks, headings, code spans, links.

use std::collections::{BTreeMap, BTreeSet};

/// A fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Line of its first line of text, from 1.
    pub line: usize,
    /// The words after the fence, at commas: the language is the first.
    pub info: Vec<String>,
    pub text: String,
}

impl Block {
    pub fn language(&self) -> &str {
        self.info.first().map_or("", String::as_str)
    }

    pub fn is_ignored(&self) -> bool {
        self.info.iter().any(|word| word == "ignore")
    }

    /// Whether a shell can run it.
    pub fn is_shell(&self) -> bool {
        matches!(self.language(), "sh" | "bash" | "shell" | "console")
    }
}

/// Splits a page into its fenced blocks and the numbered lines outside of them.
fn split(page: &str) -> (Vec<Block>, Vec<(usize, &str)>) {
    let (mut blocks, mut prose) = (Vec::new(), Vec::new());
    let mut open: Option<(usize, Block)> = None;
    for (at, line) in page.lines().enumerate() {
        let trimmed = line.trim_start();
        let fence = trimmed.len() - trimmed.trim_start_matches('`').len();
        let info = trimmed[fence..].trim();
        match &mut open {
            Some((opened, _)) if fence >= *opened && info.is_empty() => {
                blocks.extend(open.take().map(|(_, block)| block));
            }
            Some((_, block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            None if fence >= 3 => {
                let info = info.split(',').map(|word| word.trim().to_owned()).collect();
                open = Some((fence, Block { line: at + 2, info, text: String::new() }));
            }
            None => prose.push((at + 1, line)),
        }
    }
    assert!(open.is_none(), "a fenced block does not end: {open:?}");
    (blocks, prose)
}

pub fn blocks(page: &str) -> Vec<Block> {
    split(page).0
}

/// The texts of the headings, in order, code spans included.
pub fn headings(page: &str) -> Vec<String> {
    let heading = |line: &str| {
        let text = line.trim_start_matches('#');
        let level = line.len() - text.len();
        ((1..=6).contains(&level) && text.starts_with(' ')).then(|| text.trim().to_owned())
    };
    split(page).1.into_iter().filter_map(|(_, line)| heading(line)).collect()
}

/// The names that links can point to: made of headings as mdBook and GitHub make them.
pub fn anchors(page: &str) -> BTreeSet<String> {
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    let mut anchor = |heading: String| {
        let kept = heading.to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let slug: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let before = times.entry(slug.clone()).or_default();
        *before += 1;
        if *before == 1 { slug } else { format!("{slug}-{}", *before - 1) }
    };
    headings(page).into_iter().map(&mut anchor).collect()
}

/// Code spans outside of blocks.
pub fn code_spans(page: &str) -> Vec<String> {
    let prose = split(page).1.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n");
    prose.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The targets of links and images with their lines. Code is no link.
pub fn links(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, line) in split(page).1 {
        let text: String = line.split('`').step_by(2).collect();
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        found.extend(targets.map(|target| (at, target.to_owned())));
        let sources = text.split("src=\"").skip(1).filter_map(|rest| rest.split('"').next());
        found.extend(sources.map(|target| (at, target.to_owned())));
    }
    found
}

#[test]
fn a_page_is_read_as_a_reader_reads_it() {
    let page = "# One `x`\n```sh\n# no heading\n[no](link)\n```\n## One `x`\n`[no](link)` [yes](a.md#b)\n\
                ````text\n```\n````\n### GET /v1/{id}: a_b\n";
    assert_eq!(headings(page), ["One `x`", "One `x`", "GET /v1/{id}: a_b"]);
    let expected = ["get-v1id-a_b", "one-x", "one-x-1"];
    assert_eq!(anchors(page).into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(links(page), [(7, "a.md#b".to_owned())]);
    let blocks = blocks(page);
    assert_eq!((blocks.len(), blocks[0].line, blocks[0].language()), (2, 3, "sh"));
    assert_eq!(blocks[1].text, "```\n");
}
