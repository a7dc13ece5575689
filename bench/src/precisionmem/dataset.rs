use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::BTreeSet;

/// Names the scope of what holds everywhere.
pub(super) const UNIVERSAL: &str = "user:universal";
/// The type of beliefs that are questions.
pub(super) const OPEN_QUESTION: &str = "open_question";

/// Both files.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// Of all users.
    pub beliefs: Vec<Belief>,
    /// In the order of the file.
    pub cases: Vec<Case>,
}

/// Something that a system believes of a user.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Belief {
    /// Unique among all users.
    #[serde(rename = "_id")]
    pub id: String,
    /// Whose.
    pub user_id: String,
    /// Such as `preference` or `open_question`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its name, with `_` for blanks.
    pub canonical_name: String,
    /// Its other names.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// What is believed.
    pub content: String,
    /// Where it holds.
    pub scope: Vec<String>,
    /// Whether it is there whatever is asked.
    #[serde(default)]
    pub pinned: bool,
    /// When it was settled.
    pub resolved_at: Option<String>,
    /// The belief that took its place.
    pub superseded_by: Option<String>,
    /// When it was first believed.
    pub created_at: Option<String>,
}

/// A question with what its answer must and must not hold.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Case {
    /// Its name.
    pub case_id: String,
    /// The kind of difficulty.
    pub category: String,
    /// Who asks, where that is not the user of most beliefs.
    pub user_id: Option<String>,
    /// Where it is asked.
    pub scope: Vec<String>,
    /// May be blank.
    pub query: String,
    /// How much may be answered.
    pub budget: Option<Budget>,
    /// What is expected.
    pub expect: Expected,
}

/// How much may be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// What is pinned included.
    pub max_beliefs: Option<usize>,
}

/// What is expected of each part of an answer; what is missing may be anything.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Expected {
    /// Preferences that hold everywhere.
    pub persona_prelude: Tier,
    /// What is pinned.
    pub pinned_facts: Tier,
    /// What matters for the query.
    pub relevant_beliefs: Tier,
    /// What is open.
    pub open_questions: Tier,
}

/// What is expected of one part.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Tier {
    /// These, and perhaps more.
    pub must_include: BTreeSet<String>,
    /// None of these.
    pub must_exclude: BTreeSet<String>,
    /// Exactly these.
    pub should_only_include: Option<BTreeSet<String>>,
    /// Something.
    pub non_empty: bool,
    /// Nothing.
    pub is_null: bool,
    /// These words, in any case.
    pub contains: Vec<String>,
    /// None of these words.
    #[serde(deserialize_with = "one_or_many")]
    pub must_not_contain: Vec<String>,
}

fn one_or_many<'de, D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Words {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Words::deserialize(from)? {
        Words::One(word) => vec![word],
        Words::Many(words) => words,
    })
}

impl Dataset {
    /// Reads the texts of both files.
    ///
    /// # Errors
    /// If they are no such files, or a case or a chain names a belief that is not there.
    pub fn parse(beliefs: &str, cases: &str) -> Result<Self> {
        let beliefs: Vec<Belief> = serde_json::from_str(beliefs).context("this is no list of beliefs")?;
        let cases: Vec<Case> = serde_json::from_str(cases).context("this is no list of cases")?;
        ensure!(!beliefs.is_empty() && !cases.is_empty(), "the files hold no belief or no case");
        let data = Self { beliefs, cases };
        for belief in &data.beliefs {
            ensure!(
                data.last_of(belief).is_some(),
                "what supersedes {} is not there, or goes round",
                belief.id
            );
        }
        for case in &data.cases {
            let Expected { pinned_facts, relevant_beliefs, open_questions, .. } = &case.expect;
            for tier in [pinned_facts, relevant_beliefs, open_questions] {
                let named = tier.must_include.iter().chain(tier.should_only_include.iter().flatten());
                for id in named {
                    ensure!(data.belief(id).is_some(), "{} names {id}, which is not there", case.case_id);
                }
            }
        }
        Ok(data)
    }

    /// Finds a belief.
    pub fn belief(&self, id: &str) -> Option<&Belief> {
        self.beliefs.iter().find(|belief| belief.id == id)
    }

    /// The user of most beliefs.
    pub fn user(&self) -> &str {
        let count = |user: &str| self.beliefs.iter().filter(|belief| belief.user_id == user).count();
        let users = self.beliefs.iter().map(|belief| belief.user_id.as_str());
        users.max_by_key(|user| count(user)).unwrap_or_default()
    }

    /// The end of the chain that a belief is in: itself, if nothing supersedes it. `None` if the chain has no end.
    pub fn last_of<'a>(&'a self, belief: &'a Belief) -> Option<&'a Belief> {
        let mut last = belief;
        for _ in 0..=self.beliefs.len() {
            match &last.superseded_by {
                None => return Some(last),
                Some(next) => last = self.belief(next)?,
            }
        }
        None
    }
}
