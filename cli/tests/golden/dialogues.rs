//! Golden dialogues: what a user says over months, and what the context of each later question must hold and must
//! not. They go through a real process, its model and `POST …/context`, with nothing but text, role and time.
use crate::common::{Api, Model, Server, repository, scratch};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Of a context, where a dialogue says nothing else.
const BUDGET_TOKENS: u32 = 600;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Dialogue {
    name: String,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Step {
    Say {
        at: String,
        say: String,
        /// The name by which later steps refer to it.
        r#as: Option<String>,
        status: Option<String>,
    },
    Ask {
        at: String,
        ask: String,
        budget: Option<u32>,
        #[serde(default)]
        holds: Vec<String>,
        #[serde(default)]
        lacks: Vec<String>,
    },
    Forget {
        #[allow(dead_code)]
        at: String,
        forget: String,
    },
}

struct Teller<'a> {
    api: &'a Api,
    user: &'a str,
    /// Name -> id and text.
    said: BTreeMap<String, (String, String)>,
}

impl Teller<'_> {
    async fn take(&mut self, dialogue: &str, step: &Step) {
        match step {
            Step::Say { at, say, r#as, status } => {
                let memory = json!({"content": say, "role": "user", "event_time": at});
                let path = format!("/v1/users/{}/memories", self.user);
                let result = self.api.ok(&path, &json!({"memories": [memory]})).await["results"][0].clone();
                let wanted = status.as_deref().unwrap_or("created");
                assert_eq!(result["status"], wanted, "{dialogue}: {say}");
                if let Some(name) = r#as {
                    let id = result["id"].as_str().unwrap().to_owned();
                    assert!(
                        self.said.insert(name.clone(), (id, say.clone())).is_none(),
                        "{dialogue}: {name}"
                    );
                }
            }
            Step::Ask { at, ask, budget, holds, lacks } => {
                let budget = budget.unwrap_or(BUDGET_TOKENS);
                let body = json!({"query": ask, "budget_tokens": budget, "situation": {"now": at}});
                let context = self.api.ok(&format!("/v1/users/{}/context", self.user), &body).await;
                self.check(&format!("{dialogue}, {at}: {ask}"), &context, holds, lacks, budget);
            }
            Step::Forget { forget, .. } => {
                let path = format!("/v1/users/{}/memories/{}", self.user, self.said[forget].0);
                let (status, answer) = self.api.delete(&path).await;
                assert!(status.is_success(), "{dialogue}: {forget}: {answer}");
            }
        }
    }

    fn check(&self, at: &str, context: &Value, holds: &[String], lacks: &[String], budget: u32) {
        let text = context["text"].as_str().unwrap();
        assert!(context["tokens"].as_u64().unwrap() <= u64::from(budget), "{at}: {context}");
        for name in holds {
            assert!(self.is_in(name, context), "{at}: {name} is missing\n{text}");
        }
        for name in lacks {
            assert!(!self.is_in(name, context), "{at}: {name} is there\n{text}");
        }
    }

    /// A context may hold the memory, or what it states as a fact in short: its source is the memory then.
    fn is_in(&self, name: &str, context: &Value) -> bool {
        let (id, said) = &self.said[name];
        let sections = context["sections"].as_array().unwrap();
        let items = sections.iter().flat_map(|section| section["items"].as_array().unwrap());
        let is_source =
            |item: &Value| item["id"] == json!(id) || item["source"].to_string().contains(id.as_str());
        items.clone().any(is_source) || context["text"].as_str().unwrap().contains(said.as_str())
    }
}

async fn tell(language: &str) {
    let path = repository().join(format!("cli/tests/golden/{language}.json"));
    let dialogues: Vec<Dialogue> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let data = scratch();
    let server = Server::start(data.path(), Model::Builtin);
    let api = server.api();
    assert!(dialogues.len() >= 7);
    for (number, dialogue) in dialogues.iter().enumerate() {
        let user = format!("{language}-{number}");
        let mut teller = Teller { api: &api, user: &user, said: BTreeMap::new() };
        for step in &dialogue.steps {
            teller.take(&dialogue.name, step).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn english_dialogues_are_remembered_as_people_mean_them() {
    tell("english").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chinese_dialogues_are_remembered_as_people_mean_them() {
    tell("chinese").await;
}
