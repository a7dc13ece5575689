//! What sentences say of the health of who speaks: labelled sentences of both languages, and how many of them the rules
//! read rightly. What is found must be right, every time; what is missed is counted.

use super::*;
use std::collections::BTreeSet;

const ENGLISH: &str = include_str!("health_en.tsv");
const CHINESE: &str = include_str!("health_zh.tsv");

/// The least share of what is stated that is found.
const RECALL_MIN: f64 = 0.9;

/// A label and what it names, as `predicate: object`.
type Facts = BTreeSet<(char, String)>;

struct Labelled {
    label: char,
    facts: BTreeSet<String>,
    sentence: &'static str,
}

fn labelled(text: &'static str) -> Vec<Labelled> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let [label, facts, sentence] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("three columns: {line}")
            };
            let facts = facts.split("; ").filter(|fact| !fact.is_empty()).map(str::to_owned).collect();
            Labelled { label: label.chars().next().unwrap(), facts, sentence }
        })
        .collect()
}

/// What a text says of health: stated (`+`) or denied (`x`) of who speaks, and stated of others (`o`).
fn of_health(text: &str) -> Facts {
    let mut facts = Facts::new();
    for statement in extracted(text).statements {
        let Statement { subject, predicate, about, value, mode, .. } = statement;
        let (name, ends) = match (predicate.as_str(), value.as_str()) {
            ("allergic to" | "intolerant to" | "medication" | "illness", "yes") => {
                (format!("{predicate}: {about}"), false)
            }
            ("allergic to" | "intolerant to" | "medication" | "illness", _) => {
                (format!("{predicate}: {about}"), true)
            }
            ("eats", "no") => (format!("not eat: {about}"), false),
            ("drinks", "no") => (format!("not drink: {about}"), false),
            ("tolerates", "no") => (format!("not tolerate: {about}"), false),
            ("diet", _) if mode == Mode::State => (format!("diet: {value}"), false),
            _ => continue,
        };
        let label = match (subject.as_str(), ends) {
            ("user", false) => '+',
            ("user", true) => 'x',
            _ => 'o',
        };
        facts.insert((label, name));
    }
    facts
}

fn measure(language: &str, text: &'static str) {
    let all = labelled(text);
    assert!(all.len() >= 120, "{language}: {} sentences", all.len());
    let (mut right, mut wrong, mut missed) = (0u32, Vec::new(), Vec::new());
    for Labelled { label, facts, sentence } in &all {
        let found = of_health(sentence);
        for (kind, fact) in &found {
            match kind {
                'o' if *label == 'o' => {}
                kind if kind == label && facts.contains(fact) => right += 1,
                _ => wrong.push(format!("{sentence}: {kind} {fact}")),
            }
        }
        let expected = facts.iter().filter(|fact| !found.contains(&(*label, (*fact).clone())));
        missed.extend(expected.map(|fact| format!("{sentence}: {fact}")));
    }
    let stated = f64::from(right) + missed.len() as f64;
    let recall = f64::from(right) / stated;
    let found = f64::from(right) + wrong.len() as f64;
    println!(
        "{language}: {} sentences, {stated} facts; precision {:.3}, recall {recall:.3}; missed: {missed:#?}",
        all.len(),
        f64::from(right) / found,
    );
    assert!(wrong.is_empty(), "{language}: {wrong:#?}");
    assert!(recall >= RECALL_MIN, "{language}: {recall}: {missed:#?}");
}

#[test]
fn english_sentences_of_health_are_read_rightly_or_not_at_all() {
    measure("English", ENGLISH);
}

#[test]
fn chinese_sentences_of_health_are_read_rightly_or_not_at_all() {
    measure("Chinese", CHINESE);
}

#[test]
fn what_binds_is_a_hard_constraint_and_its_end_is_none() {
    for text in [
        "I take warfarin every day",
        "I'm on warfarin",
        "I can't eat peanuts",
        "I'm a coeliac",
        "I can't take ibuprofen",
        "我必须每天服用华法林",
        "我不能吃花生",
        "我有糖尿病",
        "我不能吃阿司匹林",
    ] {
        assert_eq!(extracted(text).importance, Some(1.0), "{text}");
    }
    for text in ["I stopped taking warfarin", "I'm no longer allergic to peanuts", "我把华法林停了"] {
        let found = extracted(text);
        assert_eq!((found.importance, found.statements.len()), (Some(0.9), 1), "{text}");
    }
}

/// A dose that was changed must not be counted as the old one said again.
#[test]
fn a_text_with_a_dose_says_more_than_its_fact() {
    for text in ["I take 5 mg of warfarin daily", "I take warfarin twice a day", "我每天吃两片华法林"]
    {
        let found = extracted(text);
        assert_eq!((found.statements.len(), found.whole), (1, false), "{text}");
    }
    for text in ["I'm on warfarin", "I take warfarin", "我在吃华法林"] {
        assert!(extracted(text).whole, "{text}");
    }
}

#[test]
fn a_supposition_ends_where_a_fact_is_told() {
    let subjects = |text: &str| stated(text).len();
    assert_eq!(subjects("Suppose I lived in Rome. I work at Acme."), 0);
    assert_eq!(subjects("Suppose I lived in Rome. In fact I live in Bonn."), 1);
    assert_eq!(subjects("If I were rich! I live in Bonn."), 1, "an if makes only what harms doubtful");
    assert_eq!(subjects("If you cook for me, remember one thing. I'm allergic to peanuts."), 1);
    assert_eq!(subjects("假设我住在罗马。我在腾讯工作。"), 0);
    assert_eq!(subjects("假设我住在罗马。其实我住在北京。"), 1);
    assert_eq!(subjects("Imagine! I moved to Bonn."), 1);
}

/// The same meal speaks against the same diet, wherever the time stands.
#[test]
fn evidence_is_found_in_every_order_of_words() {
    for text in [
        "昨天我吃了牛排",
        "我昨天吃了牛排",
        "我昨天晚上吃了一块牛排",
        "我上周在餐厅吃了牛排",
        "我昨晚和朋友吃了红烧肉",
        "I had steak yesterday",
        "Yesterday I had a steak",
    ] {
        let diet = extracted(text).statements.into_iter().find(|statement| statement.predicate == "diet");
        let Some(Mode::Evidence { against }) = diet.map(|diet| diet.mode) else { panic!("{text}") };
        assert!(against.contains(&"vegetarian".to_owned()), "{text}");
    }
    for text in ["他昨天吃了牛排", "我昨天没吃牛排", "我昨天想吃牛排", "我昨天吃了素牛排"]
    {
        let found = extracted(text).statements;
        assert!(found.iter().all(|statement| statement.predicate != "diet"), "{text}: {found:?}");
    }
    assert_eq!(stated("我昨天搬到北京了"), stated("昨天我搬到北京了"));
}

/// That somebody ate what they must not, and what came of it, is no word that they may.
#[test]
fn what_was_eaten_once_ends_no_rule() {
    let state = |text: &str| {
        let statements = extracted(text).statements.into_iter();
        let eaten = statements.filter(|statement| ["eats", "drinks"].contains(&statement.predicate.as_str()));
        eaten.filter(|statement| matches!(statement.mode, Mode::State)).count()
    };
    for text in [
        "我吃花生了，送医院了",
        "我吃花生了，是误吃的",
        "我昨天吃花生了，送医院了",
        "我吃花生，然后进了急诊",
        "我喝牛奶了，拉肚子",
        "我吃猪肉了。",
        "I eat peanuts and I end up in hospital.",
        "I eat peanuts, I die.",
        "I drink milk and get cramps.",
        "I eat pork, but only by mistake.",
        "I eat peanuts.",
        "I'm eating peanuts right now and my lips are swelling",
        "We eat peanuts",
        "I eat peanuts. I got hives.",
        "我正在吃花生",
        "我吃虾。然后就进了医院。",
        "我一直吃花生",
    ] {
        assert_eq!(state(text), 0, "{text}: {:?}", extracted(text).statements);
    }
    for text in ["I eat pork again, my doctor agrees", "我现在吃猪肉了", "I drink milk now, and like it"]
    {
        assert_eq!(state(text), 1, "{text}: {:?}", extracted(text).statements);
    }
}

/// A denial that the same text takes back or doubts, or that is of a time that is over, ends nothing.
#[test]
fn what_is_taken_back_ends_nothing() {
    for text in [
        "I'm not allergic to penicillin. Just kidding.",
        "I'm not allergic to penicillin, supposedly",
        "I'm not allergic to penicillin. That's wrong.",
        "Last year I stopped taking levothyroxine, but I'm back on it",
        "我对青霉素不过敏吧",
        "去年我对青霉素不过敏",
        "我去年没有哮喘",
        "去年我停用了二甲双胍，现在又在吃",
    ] {
        let statements = extracted(text).statements;
        let ends = |statement: &Statement| statement.mode == Mode::End || statement.value == "no";
        assert!(!statements.iter().any(ends), "{text}: {statements:?}");
    }
}
